"""The list of facts of a campaign, from its journal, its result files and its recipe."""
