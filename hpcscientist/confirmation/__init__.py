"""Confirmation of improvements: with fresh seeds on the test split, once for each idea."""
