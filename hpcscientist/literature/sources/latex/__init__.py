"""LaTeX as papers and as text."""
