"""How jobs are marked, so that whoever submitted them can be found out from the queue alone.

A driver that is killed between `sbatch` and its own record leaves an orphan; the name and
the comment are how it is found and adopted.
"""

from __future__ import annotations

CONTROLLER = "controller"
SERVE = "serve"

_COMMENT = "hpcsci:"


def job_name(campaign_id: str, what: str) -> str:
    """Return a job's name. `what`: a batch's id, CONTROLLER or SERVE."""
    return f"hpcsci-{campaign_id}-{what}"


def comment(campaign_id: str, what: str) -> str:
    """Return a job's comment."""
    return f"{_COMMENT}{campaign_id}:{what}"


def marked(campaign_id: str, name: str, said: str) -> str | None:
    """Return a job's batch id (or what it is) if it is the campaign's, else None.

    Some sites rewrite comments and some schedulers' plugins rewrite names: either will do.
    """
    for text, prefix in ((said, f"{_COMMENT}{campaign_id}:"), (name, f"hpcsci-{campaign_id}-")):
        rest = text[len(prefix) :] if text.startswith(prefix) else ""
        if rest.isalnum():  # no other campaign whose id begins like this one's
            return rest
    return None
