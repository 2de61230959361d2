"""Statistics, the decision about an idea, and what the next prompt is told."""
