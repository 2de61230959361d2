"""What the campaign does next, from what its journal says: pure."""
