"""What came of claims that were run again, kept in files so that the same command goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from hpcscientist.errors import UsageError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.records.base import Record
from hpcscientist.records.findings import Reproduction


class Tampered(Record):
    """What came of a claim that was tampered with; caught only where it does not hold.

    `reasons` are those of the rerun, or why nothing could be tried; `passed_over` are kinds whose
    turn it was and that could not be applied to this campaign, each with the reason.
    """

    campaign_id: str
    idea_id: str
    kind: str
    caught: bool
    reasons: tuple[str, ...]
    passed_over: tuple[str, ...] = ()


Verdict = TypeVar("Verdict", Reproduction, Tampered)


def kept(file: Path, kind: type[Verdict], paths: RunPaths) -> Verdict | None:
    """Read a verdict, None where there is none yet. Raises UsageError for another campaign's."""
    try:
        known = kind.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise UsageError(f"{file}: cannot be read; remove {file.parent}") from error
    if known.campaign_id != frozen.read(paths).campaign_id:
        raise UsageError(f"{file}: is of another campaign than {paths.root}; remove {file.parent}")
    return known
