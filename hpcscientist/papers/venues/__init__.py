"""Layouts of papers: each a folder with its sections, its page limit and its LaTeX."""
