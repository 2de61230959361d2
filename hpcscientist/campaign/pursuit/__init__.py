"""Pursues one idea: plan, code, pilot, fixes, review, seeds, further runs."""
