"""What is asked of the operating system, whoever asks: process trees, and a lean start."""
