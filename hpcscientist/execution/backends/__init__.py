"""Backends: adapters of `ports.Backend`. Only this folder imports submitit."""
