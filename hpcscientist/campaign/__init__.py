"""The campaign loop: performs what `conduct` decides, and records the outcomes in the journal."""
