"""Runs a candidate, isolated from everything else on the machine."""
