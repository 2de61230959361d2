"""Figures of papers, from a campaign's result files: their data, and how these are drawn."""
