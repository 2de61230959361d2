"""`hpcsci bench model`: measures what a language model achieves, beside the control arm."""
