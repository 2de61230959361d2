"""One idea's way: planned, written, piloted, fixed, reviewed, measured, followed up."""
