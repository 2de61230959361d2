"""Measures a reviewer's errors on papers whose human scores and decisions are known."""
