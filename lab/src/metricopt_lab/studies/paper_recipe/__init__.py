"""The paper's recipe with its best chance: what it takes for the method to work."""
