"""Names and comments of jobs, so that the queue alone shows which campaign a job belongs to.

A driver killed between `sbatch` and its own record leaves an orphaned job. The next driver finds
and adopts it by its name or comment.
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
    """Return a job's batch id (or CONTROLLER or SERVE) if it is the campaign's, else None.

    Some sites rewrite comments and some schedulers' plugins rewrite names: one of them suffices.
    """
    for text, prefix in ((said, f"{_COMMENT}{campaign_id}:"), (name, f"hpcsci-{campaign_id}-")):
        rest = text[len(prefix) :] if text.startswith(prefix) else ""
        if rest.isalnum():  # excludes other campaigns whose id begins with this one's
            return rest
    return None
