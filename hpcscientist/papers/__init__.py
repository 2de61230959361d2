"""Papers whose every number is a reference into a campaign's recorded results."""
