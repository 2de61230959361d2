"""The names of the standard library's modules, in whichever Python a trial has."""

from __future__ import annotations

import sys

# A trial's image may hold an older Python than this one, which had these still,
_EARLIER = (
    "aifc asynchat asyncore audioop cgi cgitb chunk crypt distutils imghdr imp lib2to3 mailcap "
    "msilib nis nntplib ossaudiodev pipes smtpd sndhdr spwd sunau telnetlib uu xdrlib"
)
_LATER = "annotationlib compression"  # or a newer one.
STANDARD = sys.stdlib_module_names | set(f"{_EARLIER} {_LATER} __main__ test".split())
