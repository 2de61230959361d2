"""What becomes of array tasks: the queue and the files, held together."""
