"""Which records are the same paper, and the one row made of them."""
