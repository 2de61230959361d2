"""What several commands share: options, signals, what is shown while a campaign runs."""
