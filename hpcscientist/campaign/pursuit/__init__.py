"""One idea's way: planned, written, piloted, mended, reviewed, measured, followed up."""
