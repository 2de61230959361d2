"""From an idea to code: edits, checks, attempts, debugging from the traceback."""
