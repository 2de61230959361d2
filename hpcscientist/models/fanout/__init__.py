"""Many calls at once: by threads here, or by tasks on a Ray cluster."""
