"""The costs of a campaign: an estimate before the launch, and the spending afterwards."""
