"""Files: atomic writes, hashes, and the one class that knows the run directory's paths."""
