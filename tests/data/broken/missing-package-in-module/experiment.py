"""Compares two ways to pool."""

from data import loader

print(loader.load())
