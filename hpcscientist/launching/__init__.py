"""Launching: all is checked first, then a run directory is made, whole or not at all."""
