"""The parts of `slurm/devcluster`. Standard library only: it runs before anything is installed."""
