"""Statistics, decisions about ideas, and the feedback for the next prompt."""
