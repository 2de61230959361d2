"""Vectors of papers: what makes them, and the files they are in."""
