"""Figures of retrieval quality, on papers whose task is known."""
