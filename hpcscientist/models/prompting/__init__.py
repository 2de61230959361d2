"""What models are shown, made to fit, and how ids and names in their replies are read."""
