"""What people look at in a campaign: one fold of journal and results into view models.

Renderers (the terminal table, the HTML report, the live view) show these and compute nothing.
"""
