"""Studies of our own: which part of the recipe gains what, and whether value functions tell anything."""
