"""Computes how models are laid out on the available machines, before anything is submitted."""
