"""Benchmarks of this machine; each figure is shown beside what it is compared with."""
