"""Configuration: settings, where each value came from, refusal of unknown keys."""
