"""Errors of known kinds, planted in papers that are right, each beside a clean twin."""
