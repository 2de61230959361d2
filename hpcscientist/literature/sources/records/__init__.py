"""Papers as indexes, services and reference managers record them."""
