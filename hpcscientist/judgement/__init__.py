"""Judges ideas: findings and their rule, confirmations on the test split, the result table."""
