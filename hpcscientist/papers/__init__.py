"""Manuscripts that name facts instead of typing numbers, and the checks against the results."""
