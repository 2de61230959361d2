"""Jobs as they are made, marked, submitted and ended."""
