"""`hpcsci bench model`: what a language model makes of the loop, beside the control arm."""
