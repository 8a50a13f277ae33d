"""The default recipe: how metric queries are spent (docs/recipe.md)."""

from metricopt.search.recipe import Recipe
from metricopt.search.walk import walk

__all__ = ["Recipe", "walk"]
