"""Checks on a manuscript's text: typed numbers, scopes, counts, claims, outcomes, citations."""
