"""Decides what a campaign does next from its journal. Pure: it reads and writes nothing."""
