"""Whole campaigns beside each other: parts of the loop left out, ideas in rounds or not."""
