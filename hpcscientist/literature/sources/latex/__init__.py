"""Reads LaTeX documents as papers."""
