"""A Slurm job that drives a campaign: submitted, followed, and continued by the next."""
