"""Collects the facts of a campaign from its journal, its result files, its recipe and its code."""
