"""One trial: its processes, limits, isolation and scoring; and the backends that queue trials."""
