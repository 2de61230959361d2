"""Files: atomic writes, hashes, logs, locks, and the paths of a run directory."""
