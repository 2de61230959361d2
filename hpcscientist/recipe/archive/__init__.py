"""A recipe's code as one archive file, always with the same bytes."""
