"""Lines of type: where they stand, in which order they are read, as running text."""
