"""What a campaign may cost, before anything is run, and what it has cost."""
