"""The model plane: Ray on the nodes of an allocation, and replicas of vLLM that it places there."""
