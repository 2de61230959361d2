"""Model servers, for a campaign or alone: which models, on which nodes, beside which trials."""
