"""Strategies decide the next steps of an idea from the outcomes of earlier steps. Pure."""
