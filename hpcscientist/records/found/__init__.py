"""What was found: findings, claims, and what came of running a claim again."""
