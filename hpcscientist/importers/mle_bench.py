"""Imports a competition of MLE-bench: config.yaml, description.md, prepare.py, grade.py.

Its grader becomes the scorer. Its preparation creates training and test data; a validation split is
cut from the training data. The format has no code to start from, so a plain baseline is written.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpcscientist.errors import RecipeError
from hpcscientist.importers.draft import RecipeDraft, imported_names, template_text, with_modules
from hpcscientist.importers.program import Program, missing_packages
from hpcscientist.importers.request import Format, ImportRequest
from hpcscientist.importers.source import TaskFiles, open_source, table_of, yaml_table
from hpcscientist.importers.wrapped import GIVEN, give, metric_tables
from hpcscientist.recipe.checks.files import REFERENCE

_CONFIG, _DESCRIPTION, _GRADE, _PREPARE = "config.yaml", "description.md", "grade.py", "prepare.py"
_MOST_DESCRIPTION = 20_000  # characters
_SECONDS = 1800.0
_OURS = {  # parts of mlebench that this package provides, by module
    "mlebench.utils": {"read_csv", "extract", "compress", "get_logger"},
    "mlebench.grade_helpers": {"InvalidSubmissionError"},
    "mlebench.competitions.utils": {"prepare_for_accuracy_metric", "prepare_for_auroc_metric"},
}
# Modules taken from the user's checkout of MLE-bench if the competition is in one.
_THEIRS = {
    "mlebench.competitions.utils": "competitions/utils.py",
    "mlebench.metrics": "metrics.py",
}
_PROBABILITY = re.compile(r"auc|log.?loss|cross.?entropy|brier|average.?precision|\bap\b|gini|kl")
_NUMBER = re.compile(
    r"mae|mse|mean.?(absolute|squared|average)|error|rmsle|r2|pearson|spearman|smape"
)


def read(request: ImportRequest, draft: RecipeDraft) -> None:
    """Fill in the recipe of a competition."""
    source = request.source
    for name in (_CONFIG, _DESCRIPTION, _GRADE, _PREPARE):
        if name not in source:
            what = f"has no {name}; give a competition's folder, such as mlebench/competitions/ID"
            raise RecipeError(f"{source.path}: {what}")
    config = yaml_table(source, _CONFIG)
    identity = str(config.get("id") or source.stem)
    package = f"mlebench.competitions.{identity}"
    grader = table_of(config, "grader")
    prepare_at = _function(draft, config.get("preparer"), package, "prepare:prepare")
    grade_at = _function(draft, grader.get("grade_fn"), package, "grade:grade")
    own = {n.removesuffix(".py"): source.text(n) for n in source.sizes if _is_module(n)}
    modules = _modules(source, draft, package, own)
    metric = request.metric or _metric(str(grader.get("name") or "score"))
    answers, sample = _files(draft, table_of(config, "dataset"))
    draft.maps(_GRADE, "the scorer, in a process of its own that sees the answers")
    draft.maps(_PREPARE, "is run as you, on this machine, when the data are prepared for a launch")
    draft.runs_source = True
    draft.adapted("validation", "cut from the training table when data are prepared")
    kept = {name: text for name, text in modules.items() if name != f"{package}.prepare"}
    draft.fill(
        "score.py",
        "score_mle_bench",
        metric=metric,
        answers=answers,
        grader=grade_at[0],
        function=grade_at[1],
        foreign=with_modules(kept),
    )
    draft.fill(
        "prepare.py",
        "prepare_mle_bench",
        preparer=prepare_at[0],
        function=prepare_at[1],
        answers=answers,
        sample=sample,
        foreign=with_modules({n: t for n, t in modules.items() if n != f"{package}.grade"}),
    )
    draft.fill(
        f"{REFERENCE}/experiment.py",
        "baseline_table",
        predicts=_predicts(metric),
        sample=Path(sample).name,
    )
    draft.adapted(
        "reference", f"the format has none: a plain baseline predicts a {_predicts(metric)}"
    )
    code = {f"{name}.py": text for name, text in own.items()}
    code["experiment.py"] = draft.files[f"{REFERENCE}/experiment.py"].decode()
    for absent in missing_packages(code):
        if absent != "mlebench":
            draft.warn(f"package {absent}", "is needed and not installed here: install it first")
    _data(source, request, draft, identity)
    _document(source, request, draft, config, metric)
    for name in ("kernels.txt", "description_obfuscated.md"):
        if name in source:
            draft.lost(name, "is for studies of copying")


def _is_module(name: str) -> bool:
    return name.endswith(".py") and "/" not in name and name != "__init__.py"


def _function(draft: RecipeDraft, given: object, package: str, default: str) -> tuple[str, str]:
    """Return the module and name of a function that the configuration names."""
    text = given if isinstance(given, str) else f"{package}.{default}"
    module, _, name = text.partition(":")
    if not module.startswith(f"{package}.") or not name.isidentifier():
        draft.refuse(_CONFIG, f"{text!r} is no function like {package}.{default}")
    return module, name or "grade"


def _files(draft: RecipeDraft, dataset: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of the answers below private/, and of the sample submission below public/."""
    found = []
    for key, side in (("answers", "private"), ("sample_submission", "public")):
        given = str(dataset.get(key))
        # A few competitions keep their sample submission beside the answers.
        sides = (side, "private") if f"/prepared/{side}/" not in given else (side,)
        _, between, name = given.partition(f"/prepared/{sides[-1]}/")
        if not between or ".." in Path(name).parts or Path(name).is_absolute():
            draft.refuse(f"{_CONFIG}: {key}", f"names no file below prepared/{side}/: {given}")
        elif Path(name).suffix not in (".csv", ".tsv"):
            draft.refuse(f"{_CONFIG}: {key}", f"{name} is no table: CSV and TSV can be graded")
        found.append(name)
    return found[0], found[1]


def _metric(name: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"[^\w@ ()+-]", " ", name)).strip()[:60] or "score"


def _predicts(metric: str) -> str:
    """Return what a grader expects as predictions, judged by the metric's name."""
    if _PROBABILITY.search(metric.lower()):
        return "probability"
    return "number" if _NUMBER.search(metric.lower()) else "class"


def _modules(
    source: TaskFiles, draft: RecipeDraft, package: str, own: Mapping[str, str]
) -> dict[str, str]:
    """Return all modules that prepare.py and grade.py import and that no package provides."""
    modules = {"mlebench": "", "mlebench.competitions": "", package: ""}
    modules |= {
        "mlebench.utils": template_text("mlebench_utils"),
        "mlebench.grade_helpers": "class InvalidSubmissionError(Exception):\n    pass\n",
        "mlebench.competitions.utils": template_text("mlebench_competitions_utils"),
    }
    known = {name: set(names) for name, names in _OURS.items()}
    for name, text in _checkout(source.path).items():
        modules[name] = text
        shared = Program(name, text)
        known[name] = {*shared.functions, *(what for _, _, what in imported_names(shared))}
    for name, text in own.items():
        modules[f"{package}.{name}"] = text
        for line, module, what in imported_names(Program(f"{name}.py", text)):
            if module.partition(".")[0] == "mlebench" and not module.startswith(package):
                if what not in known.get(module, set()):
                    missing = f"{module}.{what}".rstrip(".")
                    draft.refuse(
                        f"{name}.py:{line}",
                        f"uses {missing}, which is not here: give the folder within a checkout of "
                        "MLE-bench",
                    )
            elif module.startswith(".") and (module.lstrip(".") or what) not in own:
                draft.refuse(f"{name}.py:{line}", f"imports {module}{what}, which is not there")
    return modules


def _checkout(folder: Path) -> dict[str, str]:
    """Return the modules that competitions share, if this one is in a checkout of MLE-bench."""
    shared = folder.absolute().parent
    if shared.name != "competitions" or shared.parent.name != "mlebench":
        return {}
    found: dict[str, str] = {}
    for name, place in _THEIRS.items():
        if (shared.parent / place).is_file():
            path = shared.parent / place
            found[name] = open_source(path).text(path.name)
    return found


def _data(source: TaskFiles, request: ImportRequest, draft: RecipeDraft, identity: str) -> None:
    """Declare which data files are required."""
    link = f"https://www.kaggle.com/c/{identity}/data"
    draft.commands.append("hpcsci recipe check {recipe} --run")
    if request.data is not None:
        names = give(draft, request, link)
        tops = {name.removeprefix("prepared/").partition("/")[0] for name in names}
        if tops >= {"public", "private"}:
            draft.runs_source = False
            draft.adapted("--data", f"was prepared before, so {_PREPARE} is not run")
        return
    sums: Mapping[str, Any] = {}
    if "checksums.yaml" in source:
        sums = yaml_table(source, "checksums.yaml")
    md5 = str(sums.get("zip") or "-")
    md5 = md5 if re.fullmatch(r"[0-9a-f]{32}", md5) else "-"
    draft.put(GIVEN, f"{md5}  {identity}.zip\n")
    draft.document["data"] = {
        "files": GIVEN,
        "source": link,
        "licence": "the competition's rules",
        "required": True,
    }
    draft.commands = [f"{command} --data FOLDER" for command in draft.commands]
    draft.adapted("data", f"{identity}.zip, in a folder that you give by --data")


def _direction(source: TaskFiles) -> str | None:
    """Return the direction of the leaderboard's scores, determined as MLE-bench does."""
    if "leaderboard.csv" not in source:
        return None
    rows = list(csv.DictReader(source.text("leaderboard.csv").splitlines()))
    try:
        first, last = float(rows[0]["score"]), float(rows[-1]["score"])
    except (IndexError, KeyError, ValueError, TypeError):
        return None
    return "minimize" if first < last else "maximize"


def _document(
    source: TaskFiles,
    request: ImportRequest,
    draft: RecipeDraft,
    config: Mapping[str, Any],
    metric: str,
) -> None:
    by_board = None if request.direction else _direction(source)
    if by_board:
        tables: list[dict[str, object]] = [{"name": metric, "direction": by_board}]
        draft.adapted("metric", f"{metric!r} decides, {by_board}d, as the leaderboard is sorted")
    else:
        tables = metric_tables(draft, request, [metric])
    description = source.text(_DESCRIPTION)
    draft.maps(_DESCRIPTION, "the topic's description")
    if len(description) > _MOST_DESCRIPTION:
        draft.lost(_DESCRIPTION, f"what follows the first {_MOST_DESCRIPTION:,} characters")
    seconds = request.seconds or _SECONDS
    draft.document |= {
        "seeds": 5,
        "predictions": "submission.csv",
        "topic": {
            "title": str(config.get("name") or source.stem),
            "description": description[:_MOST_DESCRIPTION],
            "inputs": "tables of the competition, and a sample submission",
            "outputs": "submission.csv, with the sample submission's columns",
        },
        "metrics": tables,
        "budgets": {"pilot": {"seconds": seconds / 3}, "full": {"seconds": seconds}},
        "resources": {"cpus": 1, "memory_mb": 8192, "output_mb": 1024},
        "scorer": {"seconds": 600.0, "memory_mb": 8192},
        "knobs": [
            {"name": "LEARNING_RATE", "type": "float", "low": 0.02, "high": 0.5, "log": True},
            {"name": "TREES", "type": "int", "low": 30, "high": 400, "log": True},
            {"name": "LEAVES", "type": "int", "low": 7, "high": 127, "log": True},
            {"name": "SMALLEST", "type": "int", "low": 1, "high": 20, "log": True},
            {"name": "PENALTY", "type": "float", "low": 0.05, "high": 20.0, "log": True},
        ],
    }
    draft.lost("medals", "scores are compared with the baseline's, not with a leaderboard")


FORMAT = Format(
    name="mle-bench",
    says="a competition folder of MLE-bench; --data: the host's zip or files, or prepared ones",
    read=read,
    options=frozenset({"metric", "direction", "data", "seconds", "run_source"}),
)
