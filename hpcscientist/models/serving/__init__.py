"""The model plane: Ray on the nodes of an allocation, and models served on it by Ray Serve LLM."""
