"""What is known: papers and code, and what a survey finds in them."""
