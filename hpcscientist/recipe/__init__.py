"""Recipes, which are folders with a research topic: schema, loader, checks, data, new recipes."""
