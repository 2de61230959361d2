"""`hpcsci bench slurm`: measures the overhead of campaigns on this Slurm, against bare arrays."""
