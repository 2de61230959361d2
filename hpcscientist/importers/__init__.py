"""Recipes made of tasks in the formats of other tools; nothing of a task is executed here."""
