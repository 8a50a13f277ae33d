"""How many queries a new model needs if another search has gone before."""
