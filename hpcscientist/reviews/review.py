"""`hpcsci review`: reads papers, has a panel review them, and writes `reviews/ID/`.

The request is recorded before the first model call, and each reply as it arrives. So the same
command resumes after any kill, asks for nothing twice, and produces the same review.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from hpcscientist.config.settings import Settings
from hpcscientist.errors import CampaignBusy, RunDirectoryError, UsageError
from hpcscientist.files.atomic import write_json, write_text
from hpcscientist.files.handed import read_regular
from hpcscientist.files.lock import FolderLocked, Lock
from hpcscientist.files.rundir import ReviewPaths
from hpcscientist.files.text import one_line
from hpcscientist.literature.material import together
from hpcscientist.models.role_client import UNANSWERED, Roles
from hpcscientist.ports import Tell
from hpcscientist.records.base import Record, place_of
from hpcscientist.records.reviews import Before, Calibrated, Review
from hpcscientist.reviews import page, paper
from hpcscientist.reviews.calibrated import Calibration, apply
from hpcscientist.reviews.form import Form
from hpcscientist.reviews.paper import PaperText
from hpcscientist.reviews.reading import PaperReader, Subject
from hpcscientist.reviews.reviewer import (
    Example,
    Panel,
    Reviewers,
    gain,
    judge_client,
    open_judge,
    spreads,
)

_EXAMPLES: Final = (".pdf", ".tex", ".txt", ".md")
_LETTERS: Final = "abcdefghijklmnop"  # no digits: a playbook would read one at an id's end
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_NUMBER = re.compile(r"[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class ReviewOptions:
    """Options of a review run. Each review gets a folder in `out`."""

    form: Form
    settings: Settings
    out: Path
    model: str = ""
    ensemble: int = 5
    reflections: int = 5
    temperature: float = 0.75
    examples: tuple[Example, ...] = ()
    calibration: Calibration | None = None
    side_by_side: int = 8  # papers reviewed at the same time
    chair: bool = True
    before: Review | None = None  # the review of an earlier version, for one paper only
    tell: Tell = field(default=lambda _: None)


class ReviewRequest(Record):
    """`asked.json`: the request of a review; a different request has a different id."""

    version: int = 1
    paper: str
    paper_sha256: str
    form: str
    form_sha256: str
    model: str
    ensemble: int
    reflections: int
    temperature: float
    seed: int
    examples: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Letters that distinguish this request from others on a paper of the same name.

        They do not depend on the ensemble: a larger one only asks the additional reviewers.
        """
        return key_of(self.model_dump_json(exclude={"ensemble"}))


@dataclass(frozen=True, slots=True)
class NotReviewed:
    """A paper without a usable reply from any reviewer, and the reason."""

    paper: str
    reason: str


def review(paths: Sequence[Path], wanted: ReviewOptions) -> list[Review | NotReviewed]:
    """Review papers, several at a time; return the results in the papers' order.

    Raises UsageError, LibraryError, EndpointError, CampaignBusy, DiskFull, RunDirectoryError.
    """
    papers = [paper.read(path) for path in paths]
    return review_all(papers, wanted, tuple(paths))


def review_all(
    papers: Sequence[PaperText], wanted: ReviewOptions, paths: tuple[Path, ...] = ()
) -> list[Review | NotReviewed]:
    """Review papers that are already read. Raises as `review` does."""
    roles = open_judge(wanted.settings, wanted.model, paths)

    async def one(of: PaperText) -> Review | NotReviewed:
        try:
            return await _one(of, wanted, roles)
        except UNANSWERED as error:
            return NotReviewed(of.name, one_line(str(error)))

    async def all_of_them() -> list[Review | NotReviewed]:
        try:
            await roles.probe()
            tasks = [partial(one, of) for of in papers]
            return list(await together(tasks, wanted.side_by_side))
        finally:
            await roles.close()

    return asyncio.run(all_of_them())


async def _one(of: PaperText, wanted: ReviewOptions, roles: Roles) -> Review:
    asked = _asked(of, wanted, roles.name)
    paths = ReviewPaths(wanted.out / f"{_UNSAFE.sub('-', of.name)[:80]}-{asked.key}")
    paths.root.mkdir(parents=True, exist_ok=True)
    with held(paths):
        write_json(paths.asked, json.loads(asked.model_dump_json()))
        at = judge_client(roles, paths, wanted.settings, wanted.temperature)
        panel = Panel(wanted.ensemble, wanted.reflections, wanted.examples, wanted.chair)
        subject = Subject(of.name, number_of(of.name))
        reader = PaperReader(at.client, subject, paths.reading)
        found = await Reviewers(at.client, wanted.form, panel).review(of, subject, reader)
        form = wanted.form
        scores = spreads(form, found.members)
        overall = scores[form.overall].value
        made = Review(
            review_id=paths.root.name,
            paper=of.name,
            title=of.title,
            paper_sha256=of.sha256,
            form=form.name,
            form_sha256=form.sha256,
            models=at.tally.models,
            ensemble=wanted.ensemble,
            reflections=wanted.reflections,
            temperature=wanted.temperature,
            examples=len(wanted.examples),
            parts=found.parts,
            members=found.members,
            lost=found.lost,
            spread=scores,
            overall=form.overall,
            threshold=form.accept,
            decision="accept" if overall >= form.accept else "reject",
            chair=found.chair,
            calibrated=Calibrated(applied=False, note="no calibration was given"),
            findings=of.findings,
            troubles=of.troubles,
            effort=at.tally.effort,
        )
        if wanted.before is not None:
            made = made.model_copy(update={"before": _before(wanted.before, made)})
        if wanted.calibration is not None:
            made = made.model_copy(update={"calibrated": apply(wanted.calibration, made)})
        write_json(paths.review, json.loads(made.model_dump_json()))
        write_text(paths.page, page.of_review(made, form))
        wanted.tell(f"{of.name}: reviewed, {paths.review}")
        return made


def load(path: Path) -> Review:
    """Read a review from its file or folder. Raises UsageError."""
    file = path / "review.json" if path.is_dir() else path
    try:
        return Review.model_validate_json(read_regular(file))
    except (OSError, ValidationError) as error:
        raise UsageError(f"{file}: is no review; give the folder of one, reviews/ID") from error


def _before(before: Review, now: Review) -> Before:
    """Return the score before a revision. Raises UsageError if the form or model differs."""
    if (before.form_sha256, before.models) != (now.form_sha256, now.models):
        raise UsageError(
            f"--before {before.review_id}: was reviewed by another form or model, so the scores "
            "cannot be compared; review that version again"
        )
    overall = before.overall
    marks = [[member.marks[overall] for member in of.members] for of in (before, now)]
    return Before(
        review_id=before.review_id, overall=before.spread[overall].value, gain=gain(*marks)
    )


def key_of(asked: str) -> str:
    """Return eight letters that distinguish a request from others."""
    digest = hashlib.sha256(asked.encode()).digest()
    return "".join(_LETTERS[byte % 16] for byte in digest[:8])


def number_of(name: str) -> int:
    """Return the number at the end of a paper's name, 0 if there is none.

    Playbooks know papers by this number. A campaign's papers are named idea-0001, … and campaign.
    """
    found = _NUMBER.search(name)
    return int(found[0]) if found else 0


def examples_of(folder: Path, form: Form) -> tuple[Example, ...]:
    """Return the worked examples of a folder: NAME.pdf, .tex, .txt or .md, and NAME.json.

    Raises UsageError if there is no paper, or if a paper's review is missing or does not fit the
    form.
    """
    found = []
    if not folder.is_dir():
        raise UsageError(f"--examples {folder}: is no folder; give one with NAME.txt and NAME.json")
    for path in sorted(p for p in folder.iterdir() if p.suffix.lower() in _EXAMPLES):
        answers = path.with_suffix(".json")
        try:
            filled = form.reply.model_validate_json(read_regular(answers))
        except OSError as error:
            raise UsageError(
                f"{answers}: cannot be read ({error.strerror}); each example needs its review"
            ) from error
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = place_of(first["loc"])
            raise UsageError(f"{answers}: {where}: {first['msg']}; fill in {form.name}") from error
        shown = json.dumps(filled.model_dump(), indent=1, ensure_ascii=False)
        found.append(Example(paper.read(path).text, shown))
    if not found:
        raise UsageError(f"--examples {folder}: holds no paper; give NAME.txt and NAME.json")
    return tuple(found)


@contextmanager
def held(paths: ReviewPaths) -> Iterator[None]:
    """Lock a review so that no other process writes it. Raises CampaignBusy, RunDirectoryError."""
    try:
        lock = Lock(paths.lock)
    except FolderLocked as holder:
        raise CampaignBusy(
            f"{paths.root}: {holder} writes it already; wait for that, or give another --out"
        ) from holder
    except OSError as error:
        raise RunDirectoryError(f"{paths.root}: cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def _asked(of: PaperText, wanted: ReviewOptions, model: str) -> ReviewRequest:
    told: dict[str, Any] = {
        "examples": tuple(
            hashlib.sha256(f"{e.paper}\0{e.review}".encode()).hexdigest() for e in wanted.examples
        )
    }
    return ReviewRequest(
        paper=of.name,
        paper_sha256=of.sha256,
        form=wanted.form.name,
        form_sha256=wanted.form.sha256,
        model=model,
        ensemble=wanted.ensemble,
        reflections=wanted.reflections,
        temperature=wanted.temperature,
        seed=wanted.settings.seed,
        **told,
    )
