"""notes.md, the experimental journal of an idea."""
