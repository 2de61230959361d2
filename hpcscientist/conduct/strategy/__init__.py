"""What is done for an idea next: pure, from what its steps have come to so far."""
