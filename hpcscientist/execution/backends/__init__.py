"""Adapters of the backend port. Here alone is submitit imported."""
