"""What has happened in a campaign: its journal, the fold of it, and the frozen configuration."""
