"""Reading tracebacks in a trial's log.

`layouts` cleans a log and rewrites foreign layouts in Python's own, `blocks` finds tracebacks, and
`log` finds the candidate's files in them.
"""
