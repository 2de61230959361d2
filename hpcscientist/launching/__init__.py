"""From a command to a driven campaign: checks, run directory, driver, and its Slurm job."""
