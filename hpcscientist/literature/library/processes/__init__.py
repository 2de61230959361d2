"""Processes that read sources concurrently for a build."""
