"""Runs trials as elements of Slurm job arrays. Only this folder calls Slurm's commands."""
