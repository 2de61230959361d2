"""How ideas enter a campaign: the context of proposals, admission, and vetting."""
