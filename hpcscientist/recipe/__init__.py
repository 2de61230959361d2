"""Recipes: a research topic as a folder. Schema, loader, checks, and the writer of new ones."""
