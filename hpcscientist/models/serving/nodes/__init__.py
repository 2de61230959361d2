"""The processes that run on the nodes of a model plane."""
