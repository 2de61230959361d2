"""A campaign's past: its journal, the state computed from it, and the frozen configuration."""
