"""How far a reviewer errs, measured on papers whose human scores and decisions are known."""
