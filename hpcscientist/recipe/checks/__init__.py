"""What is wrong with a recipe, with file and line, before any of it runs."""
