"""How tracebacks are read: `lines` cleans a log, `blocks` finds them, `places` finds our files."""
