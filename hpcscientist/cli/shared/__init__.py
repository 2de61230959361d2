"""Code that several commands share: options, signal handling, costs and progress display."""
