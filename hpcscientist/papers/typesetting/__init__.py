"""Turns a manuscript into LaTeX, a PDF and HTML pages, and finds the defects of the result."""
