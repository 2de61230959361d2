"""Static checks of a recipe. Problems have file and line, and nothing of the recipe runs."""
