"""Click commands, one file a command, no logic."""
