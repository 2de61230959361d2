"""The loop: what is decided is done, by stages that meet here, and what it comes to recorded."""
