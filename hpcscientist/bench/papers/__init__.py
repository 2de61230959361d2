"""`hpcsci bench papers`: how many false statements the walls of manuscripts refuse."""
