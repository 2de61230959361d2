"""Figures for who changes the code; `python tests/benchmarks NAME` prints them."""
