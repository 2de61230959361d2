"""Campaigns driven by a Slurm job: submit the job, follow it, cancel it, continue the chain."""
