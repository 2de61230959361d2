"""Is the baseline good enough: how small an effect can be found, and does it stay what it was?"""
