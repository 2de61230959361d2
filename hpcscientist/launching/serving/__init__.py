"""The model plane of a campaign, or alone: which models, on which nodes, and who waits for it."""
