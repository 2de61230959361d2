"""The folder of a rerun: a new one, or an interrupted one that is resumed.

Its layout is that of a run directory, with its own journal, trials and lock, but without a
campaign.toml, so that it is not taken for a campaign. Its trials have their own id and key: ending
the campaign's processes leaves them alone, and vice versa.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcscientist.campaign.claims import encode
from hpcscientist.errors import CampaignBusy, RunDirectoryError, UsageError
from hpcscientist.execution.backends.slots import refuse_patterns
from hpcscientist.files import vault
from hpcscientist.files.atomic import write_atomic
from hpcscientist.files.handed import read_regular
from hpcscientist.files.lock import Held, Lock
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import journal
from hpcscientist.records.events import CampaignStarted
from hpcscientist.records.findings import Claim

OUTCOME, CLAIM = "reproduction.json", "claim.json"


def choose(campaign: RunPaths, claim: Claim, out: Path | None) -> RunPaths:
    """Create the folder of a rerun: `out`, or a new one in the campaign's `reproductions/`.

    A folder with an interrupted rerun of the same claim is resumed. Raises UsageError and
    RunDirectoryError.
    """
    try:
        refuse_patterns(campaign.root if out is None else out)
        root = _numbered(campaign, claim.idea_id) if out is None else out
        root.mkdir(parents=True, exist_ok=True)
        paths, copy = RunPaths(root), root / CLAIM
        if copy.exists():
            if read_regular(copy) != encode(claim):
                raise UsageError(f"--out {root}: holds the rerun of another claim; give another")
            if (root / OUTCOME).exists():
                raise UsageError(f"--out {root}: holds a finished rerun; give another")
        elif any(root.iterdir()):
            raise UsageError(f"--out {root}: is not empty; give another")
        else:
            write_atomic(copy, encode(claim))
        paths.trials.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise RunDirectoryError(
            f"{error.filename}: cannot be written: {error.strerror}; give --out DIR"
        ) from error
    return paths


def _numbered(campaign: RunPaths, idea_id: str) -> Path:
    campaign.reproductions.mkdir(exist_ok=True)
    number = 1
    while True:
        root = campaign.reproductions / f"{idea_id}-{number}"
        try:
            root.mkdir()
        except FileExistsError:
            number += 1
        else:
            return root


@contextmanager
def held(paths: RunPaths) -> Iterator[int]:
    """Lock the folder against other processes; yield the lock's generation.

    Raises CampaignBusy, RunDirectoryError.
    """
    try:
        lock = Lock(paths.lock)
    except Held as holder:
        raise CampaignBusy(
            f"{paths.root}: {holder} fills it already; wait for that, or give another --out"
        ) from holder
    except OSError as error:
        raise RunDirectoryError(f"{paths.lock}: cannot be written: {error.strerror}") from error
    try:
        yield lock.generation
    finally:
        lock.release()


def identity(paths: RunPaths) -> str:
    """Return the campaign id of this rerun's trials, and make a key for their results if none
    exists.

    A resumed rerun keeps its id.
    """
    known = (e.campaign_id for e in journal.read(paths.journal) if isinstance(e, CampaignStarted))
    own = next(known, f"again-{secrets.token_hex(4)}")
    try:
        if vault.campaign_key(own) is not None:
            return own
        # If a rerun's key is lost, none of its results count: run all of its trials again.
        paths.journal.unlink(missing_ok=True)
        vault.forget_campaign_key(own)
        vault.make_campaign_key(own)
    except OSError as error:
        raise RunDirectoryError(
            f"{error.filename}: cannot be written: {error.strerror}; set paths.private"
        ) from error
    return own
