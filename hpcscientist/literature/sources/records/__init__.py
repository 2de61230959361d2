"""Reads the records of papers in indexes, services and reference managers."""
