"""Builds recipes whose reference is the user's own program, run by a script of ours beside it.

Metrics that the program computes are self-reported, unless the user gives a scorer: then its
predictions are compared with labels that it does not see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcscientist.errors import RecipeError
from hpcscientist.files.handed import LARGEST_TEXT, read_regular
from hpcscientist.files.hashing import hash_file
from hpcscientist.importers.draft import Code, RecipeDraft, template_text
from hpcscientist.importers.program import (
    SEED,
    Option,
    Program,
    direction_of,
    is_length,
    knob_of,
    missing_packages,
)
from hpcscientist.importers.request import ImportRequest
from hpcscientist.importers.source import open_source
from hpcscientist.recipe.checks.files import REFERENCE
from hpcscientist.records.idea import KnobValue
from hpcscientist.records.trial import SELF_REPORTED

RUNNER = "run_program.py"
GIVEN = "data.sha256"
SECONDS = 600.0
_OURS = frozenset(  # constants of run_program.py
    {
        *("PROGRAM", "METRICS", "PREDICTIONS", "SEEDS", "LENGTHS", "PILOT", "KEPT", "NUMBER"),
        *("OPTIONS", "SEED_OPTIONS", "LENGTH_OPTIONS", "MORE", "RESULTS"),
    }
)
_SIDES = ("public/train", "public/validation", "public/test", "private/validation", "private/test")


@dataclass(frozen=True, slots=True)
class Wrapping:
    """How a program is run and read: the template `reader`, `more` arguments, and `results`, the
    folder that the program writes to.
    """

    program: Program
    reader: str
    more: tuple[str, ...] = ()
    results: str = ""


def choose_metrics(
    draft: RecipeDraft, request: ImportRequest, known: Mapping[str, int | str]
) -> list[str]:
    """Return a task's metrics by their own names, the primary one first.

    `known` maps names to the place where they were found. Ambiguity is refused in the draft.
    """
    wanted = request.metric
    if wanted is not None and wanted.removeprefix(SELF_REPORTED) in known:
        wanted = wanted.removeprefix(SELF_REPORTED)
    if wanted is None:
        telling = [name for name in known if direction_of(name)] or list(known)
        plain = [name for name in telling if "time" not in name.lower()] or telling
        if len(plain) != 1:
            names = ", ".join(plain) or "none"
            draft.refuse("metric", f"which number decides is not clear ({names}); give --metric")
            return []
        wanted = plain[0]
    elif known and wanted not in known:
        draft.refuse("metric", f"no {wanted!r} was found, but {', '.join(known)}")
        return []
    return [wanted, *(name for name in known if name != wanted and direction_of(name))]


def metric_tables(
    draft: RecipeDraft, request: ImportRequest, names: Sequence[str], prefix: str = ""
) -> list[dict[str, object]]:
    """Return [[metrics]] of recipe.toml. A metric without a direction is refused in the draft."""
    tables: list[dict[str, object]] = []
    for name in names:
        direction = direction_of(name)
        if not tables and request.direction is not None:
            direction = request.direction
        if direction is None:
            draft.refuse(
                "metric", f"whether more {name!r} is better is not clear: give --direction"
            )
            return []
        if not tables:
            how = "as you say" if request.direction else "by its name; else give --direction"
            draft.adapted("metric", f"{name!r} decides, {direction.value}d, {how}")
        tables.append({"name": prefix + name, "direction": direction.value})
    return tables


def wrap(
    draft: RecipeDraft, request: ImportRequest, wrapping: Wrapping, names: Sequence[str]
) -> None:
    """Fill in the recipe of a program whose metrics have these names."""
    program = wrapping.program
    if program.name == RUNNER:
        draft.refuse(program.name, "is the name of the script that runs it; rename yours")
    options = [option for option in program.options if _is_number(option.default)]
    constants = {option.name: _constant(option, program) for option in options}
    lengths = [name for name, (_, v) in program.constants.items() if _is_int(v) and is_length(name)]
    seeds = [name for name, (_, v) in program.constants.items() if _is_int(v) and SEED.match(name)]
    long = [o.name for o in options if _is_int(o.default) and is_length(o.name.lstrip("-"))]
    own = [o.name for o in options if SEED.match(o.name.lstrip("-").replace("-", "_"))]
    _say_seeds(draft, program, [*seeds, *own])
    _say_pilot(draft, [*lengths, *long])
    knobs = [knob_of(n, v, program.name) for n, (_, v) in program.constants.items()]
    knobs += [
        knob_of(constants[o.name], o.default, RUNNER)
        for o in options
        if o.default is not None and o.name not in own
    ]
    found = [knob for knob in knobs if knob is not None]
    _say_knobs(draft, found)
    scored = request.scorer is not None
    prefix = "" if scored else SELF_REPORTED
    tables = metric_tables(draft, request, names[:1] if scored else names, prefix)
    lines = [f"{constants[o.name]} = {o.default!r}" for o in options]
    table = ", ".join(f'"{o.name}": {constants[o.name]}' for o in options)
    lines += [
        f"OPTIONS = {{{table}}}",
        f"SEED_OPTIONS, LENGTH_OPTIONS = {own!r}, {long!r}",
        f"MORE = {list(wrapping.more)!r}  # what it is always told",
        f"RESULTS = {wrapping.results!r}",
    ]
    if scored:
        _scored(draft, request, names[0] if names else "")
    else:
        _self_reported(draft, [str(each["name"]) for each in tables])
    draft.fill(
        f"{REFERENCE}/{RUNNER}",
        "run_program",
        program=program.name,
        metrics={SELF_REPORTED + name: name for name in names},
        predictions=request.predictions if scored else "",
        seeds=seeds,
        lengths=lengths,
        constants=Code("\n".join(lines)),
        before=Code(template_text("before_nothing").rstrip()),
        read=Code(template_text(wrapping.reader).rstrip()),
    )
    seconds = request.seconds or SECONDS
    draft.document |= {
        "seeds": 5,
        "entry": RUNNER,
        "editable": [program.name],
        "predictions": Path(str(request.predictions)).name if scored else "metrics.json",
        "metrics": tables,
        "budgets": {
            "pilot": {"seconds": seconds if not lengths + long else max(10.0, seconds / 2)},
            "full": {"seconds": seconds},
        },
        "resources": {"cpus": 1, "memory_mb": 4096, "output_mb": 1024},
        "scorer": {"kind": "predictions" if scored else "self-reported"},
        "knobs": found,
    }
    draft.adapted(
        "budgets",
        f"{seconds:g} s a trial{' by --seconds' if request.seconds else ''}; see [budgets]",
    )
    if any("cuda" in text for text in program.strings):
        draft.warn("GPU", "the program asks for CUDA: say how many GPUs in [resources]")


def code_files(draft: RecipeDraft, files: Mapping[str, str]) -> None:
    """Copy the task's Python files into the reference, and warn about missing packages."""
    for name, text in files.items():
        draft.put(f"{REFERENCE}/{name}", text)
    for package in missing_packages(dict(files)):
        draft.warn(f"package {package}", "is imported and not installed here: trials would fail")


def give(
    draft: RecipeDraft, request: ImportRequest, source: str, *, required: bool = True
) -> list[str]:
    """List the user's data, which stay in place; return their names below the folder."""
    if request.data is None:
        return []
    folder = request.data
    if not folder.is_dir():
        raise RecipeError(f"--data {folder}: is no folder; give one")
    given = open_source(folder)
    for name, kind in given.odd.items():
        draft.refuse(f"--data {name}", f"is {kind}; put the file itself there")
    names = sorted(given.sizes)
    if not names:
        draft.refuse(f"--data {folder}", "holds no file")
    draft.put(GIVEN, "".join(f"{hash_file(folder / name)}  {name}\n" for name in names))
    draft.document["data"] = {
        "files": GIVEN,
        "source": source,
        "licence": "that of your data",
        "required": required,
    }
    many = "s" * (len(names) != 1)
    draft.maps(f"{len(names)} file{many} of --data", "left where they are; launch with --data")
    draft.commands = [f"{command} --data {folder}" for command in draft.commands]
    return names


def prepare_own(draft: RecipeDraft, request: ImportRequest) -> None:
    """Add a prepare.py that shows the data unchanged to every trial."""
    names = give(draft, request, "your own folder")
    given = GIVEN if names else ""
    draft.fill("prepare.py", "prepare_own", data=draft.hash_of("data"), given=given)


def _self_reported(draft: RecipeDraft, metrics: list[str]) -> None:
    draft.warn(
        "metrics",
        "self-reported: the code that ideas edit computes them, so they are never confirmed and "
        "never a claim; --scorer FILE names one that sees labels apart",
    )
    draft.withholds = False
    draft.fill("score.py", "score_self_reported", metrics=tuple(metrics))


def _scored(draft: RecipeDraft, request: ImportRequest, metric: str) -> None:
    """Use the user's scorer, and data whose labels are kept apart."""
    assert request.scorer is not None
    try:
        text = read_regular(request.scorer, LARGEST_TEXT).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"--scorer {request.scorer}: cannot be read: {error}") from error
    draft.put("score.py", text)
    draft.maps("--scorer", f"{request.scorer.name} becomes score.py, and {metric!r} is measured")
    if not request.predictions:
        draft.refuse("--predictions", "which file the program writes is not said: name it")
    names = give(draft, request, "your own folder")
    lacking = [side for side in _SIDES if not any(n.startswith(f"{side}/") for n in names)]
    if lacking:
        draft.refuse(
            "--data",
            f"a scorer needs a folder with {', '.join(_SIDES)}; {lacking[0]} has no file",
        )
    draft.fill("prepare.py", "prepare_given", given=GIVEN)


def _constant(option: Option, program: Program) -> str:
    name = option.constant
    return f"ITS_{name}" if name in _OURS or name in program.constants else name


def _is_number(value: KnobValue | None) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_int(value: KnobValue | None) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _say_seeds(draft: RecipeDraft, program: Program, names: list[str]) -> None:
    if names:
        draft.adapted("seed", f"{', '.join(names)} is set to each trial's")
    else:
        draft.adapted(
            "seed", "those that random, NumPy and PyTorch are given are shifted by each trial's"
        )
    for call, line in program.fixed_seeds.items():
        draft.warn(
            f"{program.name}:{line}",
            f"{call} is the same in every trial, so seeds differ less than they should",
        )


def _say_pilot(draft: RecipeDraft, lengths: list[str]) -> None:
    if lengths:
        draft.adapted("pilot", f"a tenth of {', '.join(lengths)}")
    else:
        draft.warn("pilot", "nothing says how long the program runs: a pilot is a whole run")


def _say_knobs(draft: RecipeDraft, found: list[dict[str, object]]) -> None:
    if found:
        names = ", ".join(str(knob["name"]) for knob in found)
        draft.adapted("knobs", f"{names}: ranges are guesses around the values; see [[knobs]]")
    else:
        draft.lost("knobs", "no constant or option is a number: --model search has nothing to set")
