"""Trials on their way from an intent to a report."""
