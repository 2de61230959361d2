"""The library that a campaign was grounded in, as its papers cite it."""

from __future__ import annotations

from pathlib import Path

from hpcscientist.campaign.proposals.campaign_library import open_library
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.ports import Library
from hpcscientist.records.literature import Paper


class NoLibrary:
    """In place of a library, where a campaign had none: it knows no paper."""

    def paper(self, paper_id: str) -> Paper | None:
        """Return None."""
        return None


def library_of(paths: RunPaths, config: CampaignConfig) -> Library | None:
    """Open a campaign's library, offline; None where it had none.

    Its own lies in the run directory, wherever that is now. Raises LibraryError.
    """
    if not config.library:
        return None
    own = paths.library
    return open_library(own if own.is_dir() else Path(config.library))
