"""Trials as elements of Slurm arrays. Here alone are Slurm's commands called."""
