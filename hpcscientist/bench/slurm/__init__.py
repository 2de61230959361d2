"""`hpcsci bench slurm`: what campaigns cost on whatever Slurm is there, beside bare arrays."""
