"""Reproduces a claim: checks that its records are intact, reruns its trials, judges the result."""
