"""Checks that each number of a sentence is what the sentence says it is."""
