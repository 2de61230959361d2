"""A library's files: where they are, what they hold, how they are replaced."""
