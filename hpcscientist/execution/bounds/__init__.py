"""Run a command within limits of time, memory and output, and leave none of its processes."""
