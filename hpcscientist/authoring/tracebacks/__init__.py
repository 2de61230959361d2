"""How tracebacks are read: `layouts` cleans a log and rewrites foreign layouts in Python's own,
`blocks` finds tracebacks, `log` finds our files in them.
"""
