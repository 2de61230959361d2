"""The doctor's tiny job: what it examines on a compute node, and the checks from its report."""
