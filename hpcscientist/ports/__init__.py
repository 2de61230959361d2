"""Ports: the protocols at the real seams. Each has at least two adapters and a contract suite.

`telling` is none: the functions that work is handed to speak to people.
"""
