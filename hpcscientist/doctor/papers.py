"""The check of what papers need: TeX with its packages, plotting, and a PDF reader."""

from __future__ import annotations

from hpcscientist.doctor.check import Check, ok, warning
from hpcscientist.papers import lacking

_NAME = "papers"


def check() -> Check:
    """Return the check of papers; campaigns run without any of this."""
    found = lacking.missing()
    preview = "Typst is installed" if lacking.can_preview() else "Typst is not installed"
    if not found:
        return ok(_NAME, f"TeX, figures and PDF checks are available; for previews {preview}")
    told = f"`hpcsci paper` makes LaTeX and HTML here, but no PDF; for previews {preview}"
    return warning(_NAME, told, f"install what is missing: {'; '.join(found)}")
