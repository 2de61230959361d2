"""`hpcsci library`."""
