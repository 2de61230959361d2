"""Figures for this machine, each beside what it is compared with."""
