"""View models of a campaign, computed from its journal and its result files.

Renderers (the terminal table, the HTML report, the live view) show them and compute nothing.
"""
