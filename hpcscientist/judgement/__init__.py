"""What is found: who is judged by which rule, what is confirmed, and the claims that remain."""
