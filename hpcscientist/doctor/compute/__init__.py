"""What a tiny job finds on a compute node, and what is to be said of it."""
