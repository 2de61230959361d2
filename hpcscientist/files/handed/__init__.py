"""Files that people and models hand us: found, bounded and read with one kind of error."""
