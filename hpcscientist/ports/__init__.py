"""Ports: the protocols at the real seams. Each has at least two adapters and a contract suite."""
