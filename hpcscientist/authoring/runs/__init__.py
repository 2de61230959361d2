"""What runs show to those who write the next code."""
