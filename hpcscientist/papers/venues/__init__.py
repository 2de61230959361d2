"""Layouts of papers: each is a folder with its sections, its page limit and its LaTeX."""
