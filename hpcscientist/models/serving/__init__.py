"""The model plane: Ray on the nodes of an allocation, and the replicas of vLLM that it places."""
