"""Closed-loop automated research on Slurm clusters. Importing this package imports nothing else."""

__version__ = "0.1.0"
