"""The candidate, and what keeps it away from everything else."""
