"""Click commands, one file a command group, no logic."""
