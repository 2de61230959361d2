"""`hpcsci bench`."""
