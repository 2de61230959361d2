"""Opens the literature library of a campaign, which its papers cite."""

from __future__ import annotations

from pathlib import Path

from hpcscientist.campaign.proposals.campaign_library import open_library
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.ports import Library
from hpcscientist.records.literature import Paper


class NoLibrary:
    """An empty library, for a campaign that had none."""

    def paper(self, paper_id: str) -> Paper | None:
        """Return None."""
        return None


def library_of(paths: RunPaths, config: CampaignConfig) -> Library | None:
    """Open a campaign's library, offline; return None if it had none.

    A library inside the run directory is preferred, since the run directory may have been moved.
    Raises LibraryError.
    """
    if not config.library:
        return None
    own = paths.library
    return open_library(own if own.is_dir() else Path(config.library))
