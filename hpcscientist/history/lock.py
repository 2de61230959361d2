"""The driver's lock: at most one driver runs a campaign at a time. See `files.lock`."""

from __future__ import annotations

from pathlib import Path

from hpcscientist.errors import CampaignBusy, DiskFull, RunDirectoryError
from hpcscientist.files.atomic import NO_SPACE
from hpcscientist.files.lock import BEAT_S, STALE_S, FolderLocked, Lock, read_holder

__all__ = ["BEAT_S", "STALE_S", "DriverLock", "read_holder"]


class DriverLock:
    """The right to drive a campaign; held from construction to `release`."""

    def __init__(self, folder: Path) -> None:
        """Take the lock. Raises CampaignBusy when another driver is alive."""
        self._folder = folder
        try:
            self._lock = Lock(folder)
        except FolderLocked as holder:
            raise CampaignBusy(
                f"{folder.parent}: {holder} drives it; stop it with `hpcsci cancel`, or follow it "
                "with `hpcsci status`"
            ) from holder
        except OSError as error:
            full = error.errno in NO_SPACE
            kind = DiskFull if full else RunDirectoryError
            raise kind(f"{folder}: cannot be written: {error.strerror}") from error
        self.generation = self._lock.generation

    def check(self) -> None:
        """Raise CampaignBusy if another driver has taken over the campaign meanwhile."""
        if self._lock.replaced():
            raise CampaignBusy(
                f"{self._folder.parent}: another driver took the campaign over while this one "
                "stood still; follow that one with `hpcsci status`"
            )

    def release(self) -> None:
        """Release the lock. If the disk is full, others see from this process's end that it is
        free.
        """
        self._lock.release()
