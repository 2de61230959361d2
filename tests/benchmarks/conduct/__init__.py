"""`benchmarks conduct`: what a decision costs, and taking a campaign up again."""
