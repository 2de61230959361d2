"""Runs instances of Scientist-Bench (AI-Researcher, arXiv 2505.18705, section 2) as campaigns.

An instance is a folder with `instance.toml`, a recipe (its library holds the references) and the
target paper. Proposers are given the instruction at level 1, but not at level 2. The target's names
are removed from the instruction, and must not occur in the recipe. A campaign is rated by the
completeness and correctness of its code, and its paper is compared with the target by `hpcsci
compare`.
"""

from __future__ import annotations

import re
import statistics
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, ValidationError

from hpcscientist.bench import campaigns
from hpcscientist.config.settings import Settings
from hpcscientist.errors import ModelError, ReplyError, UsageError
from hpcscientist.feedback.statistics import wilson
from hpcscientist.files.handed import read_regular
from hpcscientist.files.hashing import tree_files
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import one_line
from hpcscientist.history.status import read_state
from hpcscientist.judgement import quality
from hpcscientist.judgement.quality import Quality
from hpcscientist.papers import make as papers
from hpcscientist.ports import Tell
from hpcscientist.records.base import Record, place_of
from hpcscientist.records.reviews import Measure, PaperComparison
from hpcscientist.reviews import compare, paper
from hpcscientist.reviews.page import measure as shown

_FILE: Final = "instance.toml"
_ANONYMOUS: Final = "the proposed method"
_TEXTS: Final = (".py", ".toml", ".md", ".txt", ".bib", ".tex", ".json", ".jsonl")
_OVERALL: Final = "overall"


class Instance(Record):
    """`instance.toml`. `names` are the names of the target paper and of its method."""

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    domain: str = Field(min_length=1)
    level: Literal[1, 2]
    recipe: str = "recipe"
    target: str
    instruction: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScientistOptions:
    """How instances are run, and which judges compare their papers."""

    settings: Settings
    folder: Path
    judges: tuple[str, ...] = ()
    samples: int = 16


class Result(Record):
    """The result of an instance. Without a rated paper `comparison` is None, and `why` says why."""

    id: str
    domain: str
    level: int
    ideas: int
    completeness: Measure
    correctness: Measure
    paper: str = ""
    comparison: PaperComparison | None = None
    why: str = ""

    def ratings(self) -> dict[str, float]:
        """Return each judge's mean rating of the paper, by expectation if that is known."""
        if self.comparison is None:
            return {}
        found = {}
        for judge in self.comparison.judges:
            of = judge.aspects[_OVERALL]
            rating = of.rating.value if of.expected.value is None else of.expected.value
            if rating is not None:
                found[", ".join(judge.models)] = rating
        return found


def read(folders: Sequence[Path]) -> list[tuple[Path, Instance]]:
    """Read instances from folders, each of one instance or of several. Raises UsageError."""
    found = []
    for folder in folders:
        inside = [folder] if (folder / _FILE).is_file() else sorted(
            path.parent for path in folder.glob(f"*/{_FILE}")
        )  # fmt: skip
        if not inside:
            raise UsageError(f"{folder}: holds no {_FILE}; give an instance's folder, or several")
        found += [(one, _instance(one)) for one in inside]
    ids = [(one.id, one.level) for _, one in found]
    if len(set(ids)) < len(ids):
        raise UsageError("two instances have the same id and level; give each its own id")
    return found


def _instance(folder: Path) -> Instance:
    file = folder / _FILE
    try:
        data = tomllib.loads(read_regular(file).decode())
        instance = Instance.model_validate(data, strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise UsageError(f"{file}: {place_of(first['loc'])}: {first['msg']}; fix that") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from error
    if instance.level == 1 and not instance.instruction.strip():
        raise UsageError(f"{file}: an instance of level 1 needs an instruction; add it")
    if not (folder / instance.target).exists():
        raise UsageError(f"{file}: target: {instance.target} does not exist; put it there")
    leak = next(_leaks(folder / instance.recipe, instance.names), None)
    if leak is not None:
        raise UsageError(f"{leak[0]}: names {leak[1]!r}, which is the target's; take it out")
    return instance


def anonymous(text: str, names: Sequence[str]) -> str:
    """Return a text with the target's names replaced, the longest first."""
    for name in sorted(filter(None, names), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", _ANONYMOUS, text, flags=re.IGNORECASE)
    return text


def _leaks(recipe: Path, names: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """Yield files of a recipe, such as those of its library, that contain a name of the target."""
    for path in tree_files(recipe) if names else ():
        if path.suffix.lower() not in _TEXTS:
            continue
        text = read_regular(path).decode("utf-8", "replace")
        for name in names:
            if anonymous(text, (name,)) != text:
                yield path, name


def measure(
    instances: Sequence[tuple[Path, Instance]], options: ScientistOptions, tell: Tell
) -> list[Result]:
    """Run each instance as a campaign, write its paper, and compare the paper with the target.

    The same command resumes an interrupted run. Raises what a launch or a driver raises; if no
    model can write or judge a paper, only that paper has no rating.
    """
    return [_measured(folder, instance, options, tell) for folder, instance in instances]


def settings_of(folder: Path, instance: Instance, settings: Settings) -> Settings:
    """Return the settings of an instance's campaign: guided at level 1, open at level 2."""
    told = anonymous(instance.instruction, instance.names) if instance.level == 1 else ""
    mode: Literal["guided", "open"] = "guided" if told else "open"
    proposing = settings.proposing.model_copy(update={"mode": mode, "instruction": told})
    recipe = str((folder / instance.recipe).absolute())
    return settings.model_copy(update={"recipe": recipe, "proposing": proposing})


def _measured(folder: Path, instance: Instance, options: ScientistOptions, tell: Tell) -> Result:
    settings = settings_of(folder, instance, options.settings)
    paths = campaigns.run(f"{instance.id}-{instance.level}", settings, options.folder, tell)
    found = quality.measure(read_state(paths))
    result = Result(
        id=instance.id,
        domain=instance.domain,
        level=instance.level,
        ideas=found.ideas if found else 0,
        completeness=_of(found, "completeness"),
        correctness=_of(found, "correctness"),
    )
    try:
        written = _paper(paths, options, tell)
        compared = compare.compare(
            written,
            paper.read(folder / instance.target),
            compare.ComparisonOptions(
                settings=options.settings,
                out=options.folder / "reviews",
                judges=options.judges,
                samples=options.samples,
                tell=tell,
            ),
        )
    except (ModelError, UsageError) as error:
        tell(f"{instance.id}: not rated: {one_line(str(error))}")
        return result.model_copy(update={"why": one_line(str(error))})
    return result.model_copy(update={"paper": written.name, "comparison": compared})


def _of(found: Quality | None, name: str) -> Measure:
    if found is None:
        return Measure(value=None)
    count = found.ideas if name == "completeness" else found.judged_ideas
    interval = getattr(found, f"{name}_interval")
    return Measure(value=getattr(found, name), interval=interval, count=count)


def _paper(paths: RunPaths, options: ScientistOptions, tell: Tell) -> paper.PaperText:
    """Return the paper on the campaign's first confirmed improvement, or else on all of it."""
    wanted = papers.PaperOptions(folder=options.folder, settings=options.settings)
    made = next(iter(papers.make(paths, wanted, tell)))
    if isinstance(made, papers.Unwritten):
        raise ReplyError(f"{made.subject}: no paper was written: {made.reason}")
    return paper.read(made.built.pdf or made.built.folder / "source")


def lines(results: Sequence[Result]) -> Iterator[str]:
    """Yield the table of the Scientist-Bench paper, then a line for each instance.

    The table has, by domain and judge, the mean rating and the share of papers rated at least -1.
    """
    for level in sorted({result.level for result in results}):
        of_level = [result for result in results if result.level == level]
        yield f"level {level}"
        yield f"{'domain':24}{'judge':32}{'papers':>7}  {'rating':16}comparable"
        domains = list(dict.fromkeys(result.domain for result in of_level))
        for domain in (*domains, "all") if len(domains) > 1 else domains:
            of = [result for result in of_level if domain in ("all", result.domain)]
            judges = dict.fromkeys(judge for result in of for judge in result.ratings())
            for judge in judges:
                values = [r.ratings()[judge] for r in of if judge in r.ratings()]
                yield f"{domain:24}{judge:32}{len(values):7}  {_rating(values):16}{_near(values)}"
        for result in of_level:
            yield (
                f"{result.id}: completeness {shown(result.completeness)}, correctness "
                f"{shown(result.correctness)} of 5, {result.ideas} ideas"
                + (f"; not rated: {result.why}" if result.why else f"; {result.paper} rated")
            )


def _rating(values: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):+.2f}{spread}"


def _near(values: Sequence[float]) -> str:
    near = sum(value >= compare.COMPARABLE for value in values)
    low, high = wilson(near, len(values))
    return f"{near / len(values):.0%} [{low:.0%}, {high:.0%}]"
