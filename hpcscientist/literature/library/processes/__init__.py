"""Processes that read sources side by side for a build."""
