"""Manuscripts in which no number is typed, and what holds them to the results."""
