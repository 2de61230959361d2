"""Reading tracebacks in a trial's log.

`layouts` cleans a log and rewrites foreign layouts in Python's own; `log` finds tracebacks, and the
candidate's files in them.
"""
