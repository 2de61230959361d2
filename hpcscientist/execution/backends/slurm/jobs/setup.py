"""What the shell of every job does first. In a file of its own: submitit takes long to import."""

from __future__ import annotations

import shlex

from hpcscientist.records.site import SlurmSite


def setup_lines(site: SlurmSite) -> list[str]:
    """Return the shell lines before the command: modules, then the site's own."""
    return [*(f"module load {shlex.quote(module)}" for module in site.modules), *site.setup]
