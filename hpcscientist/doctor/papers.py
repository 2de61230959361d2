"""Can papers be made here: TeX with its packages, what draws figures, what reads a PDF?"""

from __future__ import annotations

from hpcscientist.doctor.check import Check, ok, warning
from hpcscientist.papers import lacking

_NAME = "papers"


def check() -> Check:
    """Return the line of papers. Campaigns run without all of it."""
    found = lacking.missing()
    preview = "Typst is installed" if lacking.can_preview() else "Typst is not installed"
    if not found:
        return ok(_NAME, f"TeX, figures and the check of PDFs are there; for previews {preview}")
    told = f"`hpcsci paper` makes LaTeX and HTML here, and no PDF; for previews {preview}"
    return warning(_NAME, told, f"install what is lacking: {'; '.join(found)}")
