"""`hpcsci paper --check` and `--trace`: checks a finished paper against its campaign's records."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from hpcscientist.errors import UsageError
from hpcscientist.files.handed import read_regular
from hpcscientist.files.hashing import hash_bytes
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history import frozen
from hpcscientist.history.status import read_state
from hpcscientist.papers import venue as venues
from hpcscientist.papers.check import check_all
from hpcscientist.papers.make import NoLibrary, library_of
from hpcscientist.papers.trace import TraceRow, trace
from hpcscientist.papers.typesetting import pdf as gate
from hpcscientist.papers.typesetting.builder import FACTS, MANUSCRIPT, PDF, RECORD
from hpcscientist.papers.typesetting.document import Drawn, Records, assemble, numbers_of
from hpcscientist.papers.typesetting.engine import EXTRA
from hpcscientist.records.facts import FactSheet
from hpcscientist.records.manuscript import Defect, DefectCode, Manuscript, Place


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a check. `reading` is of the PDF; if it is None, `unread` says why."""

    folder: Path
    defects: tuple[Defect, ...]
    numbers: int
    reading: gate.PdfReading | None
    unread: str = ""

    @property
    def coverage(self) -> float:
        """The share of the PDF's digits that are explained; 0 if the PDF could not be read."""
        return self.reading.coverage if self.reading is not None else 0.0

    @property
    def is_sound(self) -> bool:
        """Return whether the paper has no defects and every digit is explained."""
        return not self.defects and self.coverage == 1.0


def verify(folder: Path, run: Path | None) -> Verified:
    """Check a paper against its campaign, without a model and without writing anything.

    `run` is the run directory; if None, it is found as `campaign_of` says. Raises UsageError,
    RunDirectoryError, LibraryError.
    """
    manuscript = _manuscript(folder)
    paths = campaign_of(folder, run)
    records = _records(folder, paths)
    if not manuscript.scope.campaign_id == records.config.campaign_id == records.sheet.campaign_id:
        raise UsageError(
            f"{folder}: is a paper on campaign {manuscript.scope.campaign_id}, and {paths.root} "
            f"holds {records.config.campaign_id}; give its run directory: hpcsci paper DIR --check"
        )
    papers = records.library or NoLibrary()
    checked = check_all(manuscript, records.sheet, papers, paths)
    found = list(checked.defects)
    reading, unread = None, ""
    if not (folder / PDF).is_file():
        unread = f"there is no {PDF}; make it with `hpcsci paper DIR`"
    elif not gate.is_possible():
        unread = f"{PDF} cannot be read without PyMuPDF: {EXTRA}"
    else:
        figures = _figures(folder, manuscript)
        venue = venues.load(venues.DEFAULT, Path.cwd())
        document = assemble(records, manuscript, venue, figures)
        reading = gate.read(folder / PDF, document)
        found += reading.defects
        found += _changed_data(figures)
    return Verified(
        folder, tuple(dict.fromkeys(found)), len(numbers_of(manuscript)), reading, unread
    )


def traced(folder: Path) -> tuple[TraceRow, ...]:
    """Return where each number of a paper comes from, by the facts stored in the paper's folder.

    Raises UsageError.
    """
    return trace(_manuscript(folder), _facts(folder))


def campaign_of(folder: Path, run: Path | None) -> RunPaths:
    """Return the run directory of a paper's campaign. Raises UsageError if it cannot be found.

    Without `run`, try the path recorded in paper.json, then the folder two levels above the paper.
    """
    if run is not None:
        return RunPaths(run)
    said = _said(folder / RECORD)
    for place in ([folder / said] if said else []) + [folder.parent.parent]:
        there = RunPaths(Path(os.path.normpath(place.absolute())))
        if there.campaign.is_file():
            return there
    raise UsageError(
        f"{folder}: its campaign is not where it was; give the run directory: "
        f"hpcsci paper DIR --check {folder}"
    )


def _said(record: Path) -> str:
    try:
        value = json.loads(read_regular(record))["campaign"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    return value if isinstance(value, str) else ""


def _records(folder: Path, paths: RunPaths) -> Records:
    """Return the campaign's records, with the facts as stored when the paper was made."""
    state, config = read_state(paths), frozen.read(paths)
    return Records(paths, config, state, _facts(folder), library_of(paths, config))


def _facts(folder: Path) -> FactSheet:
    try:
        return FactSheet.model_validate_json(read_regular(folder / FACTS))
    except (OSError, ValidationError) as error:
        raise UsageError(
            f"{folder / FACTS}: cannot be read: restore it, or make the paper anew"
        ) from error


def _manuscript(folder: Path) -> Manuscript:
    try:
        return Manuscript.model_validate_json(read_regular(folder / MANUSCRIPT))
    except OSError as error:
        raise UsageError(
            f"{folder}: no paper: {MANUSCRIPT} cannot be read: {error.strerror}; give a folder "
            "that `hpcsci paper` made, such as DIR/papers/idea-0001"
        ) from error
    except ValidationError as error:
        raise UsageError(f"{folder / MANUSCRIPT}: damaged; make the paper anew") from error


def _evidence(what: str) -> Defect:
    return Defect(
        code=DefectCode.CHANGED_EVIDENCE,
        place=Place(section="results"),
        found=what,
        fix="restore what was changed, or make the paper anew",
    )


def _figures(folder: Path, manuscript: Manuscript) -> dict[str, Drawn]:
    """Return a paper's figures from the files in its folder."""
    found: dict[str, Drawn] = {}
    said = _recorded_figures(folder / RECORD)
    for use in manuscript.figures:
        known = said.get(use.id)
        if known is None:
            continue
        title, data, sha256 = known
        files = {
            kind: path
            for kind in ("pdf", "svg", "png")
            if (path := folder / "figures" / f"{use.id}.{kind}").is_file()
        }
        found[use.id] = Drawn(use.id, title, folder / "figures" / data, sha256, **files)
    return found


def _recorded_figures(record: Path) -> dict[str, tuple[str, str, str]]:
    try:
        figures = json.loads(read_regular(record))["figures"]
        return {
            str(name): (str(known["title"]), Path(str(known["data"])).name, str(known["sha256"]))
            for name, known in figures.items()
        }
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def _changed_data(figures: dict[str, Drawn]) -> Iterator[Defect]:
    for name, drawn in figures.items():
        if not drawn.data.is_file() or hash_bytes(read_regular(drawn.data)) != drawn.sha256:
            yield _evidence(f"the data of figure {name}, {drawn.data.name}, were changed")
