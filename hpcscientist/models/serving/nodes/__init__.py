"""What runs on the nodes of a model plane."""
