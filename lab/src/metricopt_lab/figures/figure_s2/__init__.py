"""Figure S2: surfaces of loss and metric on a plane through solutions."""
