"""The default recipe: how metric queries are spent (docs/recipe.md)."""

from metricopt.search.recipe import RECIPE_VERSION, Recipe
from metricopt.search.walk import walk

__all__ = ["RECIPE_VERSION", "Recipe", "walk"]
