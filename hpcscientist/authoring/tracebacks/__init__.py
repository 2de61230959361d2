"""How tracebacks are read: `lines` cleans a log, `layouts` rewrites foreign layouts in Python's
own, `blocks` finds tracebacks, `places` finds our files."""
