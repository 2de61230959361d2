"""Operating system helpers: process trees, limits, signals, GPUs, interpreters, plugins."""
