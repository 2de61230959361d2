"""`hpcsci bench papers`: measures how many false statements the checks of manuscripts refuse."""
