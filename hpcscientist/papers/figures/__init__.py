"""Makes the figures of papers from a campaign's records: their data tables and the drawings."""
