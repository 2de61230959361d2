"""A command within bounds of time, memory and output, of which nothing is left behind."""
