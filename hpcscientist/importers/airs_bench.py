"""Imports a task of AIRS-Bench in its `rad` form: metadata.yaml, preparation and evaluation
scripts.

Its evaluator becomes the scorer if it can be separated from the code that it judges. A validation
split is cut from the raw training rows, and goes through the task's scripts in place of the test
split.
"""

from __future__ import annotations

import ast

from hpcscientist.errors import RecipeError
from hpcscientist.importers.draft import RecipeDraft, imported_names, with_modules
from hpcscientist.importers.program import Program, direction_of, missing_packages
from hpcscientist.importers.request import Format, ImportRequest
from hpcscientist.importers.source import table_of, yaml_table
from hpcscientist.importers.wrapped import give
from hpcscientist.recipe.checks.files import REFERENCE
from hpcscientist.records.trial import Direction

_METADATA, _TEXT = "metadata.yaml", "project_description.md"
_SCRIPTS = ("prepare.py", "evaluate_prepare.py", "evaluate.py")
_EXECUTES = frozenset({"exec", "eval", "compile", "Popen", "system", "from_string", "run_path"})
_MOST_DESCRIPTION = 20_000
_SECONDS = 1800.0


def read(request: ImportRequest, draft: RecipeDraft) -> None:
    """Fill in the recipe of a task."""
    source = request.source
    for name in (_METADATA, _TEXT, *_SCRIPTS):
        if name not in source:
            what = f"has no {name}; give a task's folder, such as airsbench/tasks/rad/NAME"
            raise RecipeError(f"{source.path}: {what}")
    metadata = yaml_table(source, _METADATA)
    said = table_of(metadata, "logging_info")
    own = {
        name.removesuffix(".py"): Program(name, source.text(name))
        for name in sorted(source.sizes)
        if name.endswith(".py") and "/" not in name
    }
    task = source.stem
    raw = _raw(draft, task, own["prepare"])
    train, test = (str(said.get(f"{split}_split") or split) for split in ("train", "test"))
    _separable(draft, task, own)
    if "series" in str(said.get("category", "")).lower():
        draft.refuse(task, "no validation split can be cut: a series is tested on its continuation")
    elif train == test:
        draft.refuse(task, f"no validation split can be cut: training and test are one, {train!r}")
    # The task's modules may have the names of packages that it imports, such as `evaluate`.
    modules = {
        f"task_{name}" if f"{name}.py" in _SCRIPTS else name: program.source
        for name, program in own.items()
    }
    foreign = with_modules(modules)
    name = str(said.get("metric") or "score")
    draft.maps("evaluate.py", "the scorer, in a process of its own that sees the labels")
    draft.maps("prepare.py, evaluate_prepare.py", "are run as you when the data are prepared")
    draft.adapted("validation", "cut from the raw training rows, and prepared as the test split is")
    draft.runs_source = True
    draft.fill("prepare.py", "prepare_airs_bench", raw=raw, train=train, test=test, foreign=foreign)
    draft.fill("score.py", "score_airs_bench", metric=name, name=name, foreign=foreign)
    columns = said.get("scoring_column")
    labels = [str(each) for each in columns] if isinstance(columns, list) else [str(columns)]
    draft.fill(f"{REFERENCE}/experiment.py", "baseline_rows", labels=labels)
    draft.adapted("reference", "the format has none: words and a linear model, or the commonest")
    draft.commands.append("hpcsci recipe check {recipe} --run")
    if request.data is None:
        draft.refuse("data", f"give the folder that holds {raw}, as downloaded: --data FOLDER")
    else:
        names = give(draft, request, str(said.get("dataset") or "the task's data set"))
        if not any(each.startswith(f"{raw}/") for each in names):
            draft.refuse("--data", f"has no {raw}")
    lower = metadata.get("metric_lower_is_better")
    direction = Direction.MINIMIZE if lower is True else Direction.MAXIMIZE
    if not isinstance(lower, bool):
        direction = request.direction or direction_of(name) or direction
    draft.maps("metric", f"{name!r}, {direction.value}d")
    files = {each: program.source for each, program in own.items()}
    code = {**files, "experiment.py": draft.files[f"{REFERENCE}/experiment.py"].decode()}
    for absent in missing_packages(code):
        draft.warn(f"package {absent}", "is needed and not installed here: install it first")
    text = source.text(_TEXT)
    draft.maps(_TEXT, "the topic's description")
    if "sota" in said:
        draft.lost("sota", "is no baseline's number; scores are compared with the baseline's")
    seconds = request.seconds or _SECONDS
    draft.document |= {
        "seeds": 5,
        "predictions": "submission.csv",
        "topic": {
            "title": str(said.get("name") or task),
            "description": text[:_MOST_DESCRIPTION],
            "inputs": "rows of a data set on disk, train/train and SPLIT/test",
            "outputs": f"submission.csv, a row each, with {', '.join(labels)}",
            "attributes": [str(said[k]) for k in ("category", "research_problem") if said.get(k)],
        },
        "metrics": [{"name": name, "direction": direction.value}],
        "budgets": {"pilot": {"seconds": seconds / 3}, "full": {"seconds": seconds}},
        "resources": {"cpus": 1, "memory_mb": 8192, "output_mb": 1024},
        "scorer": {"seconds": 600.0, "memory_mb": 8192},
        "knobs": [
            {"name": "SMALLEST", "type": "int", "low": 1, "high": 20, "log": True},
            {"name": "PENALTY", "type": "float", "low": 0.05, "high": 20.0, "log": True},
        ],
    }


def _raw(draft: RecipeDraft, task: str, prepare: Program) -> str:
    """Return the data set's path below the shared folder."""
    for call in prepare.calls("join"):
        first = getattr(call.args[0], "id", "") if call.args else ""
        parts = [arg.value for arg in call.args[1:] if isinstance(arg, ast.Constant)]
        if first == "global_shared_data_dir" and len(parts) == len(call.args) - 1 > 0:
            raw = "/".join(map(str, parts))
            if ".." not in raw.split("/") and not raw.startswith("/"):
                return raw
    draft.refuse(task, "prepare.py loads no data set from below global_shared_data_dir")
    return ""


def _separable(draft: RecipeDraft, task: str, own: dict[str, Program]) -> None:
    """Refuse tasks whose evaluator cannot be separated from the code that it judges."""
    evaluate = own["evaluate"]
    if "_cli" not in evaluate.functions or "./data/test_with_labels" not in evaluate.strings:
        draft.refuse(task, "evaluate.py has no _cli that reads ./data/test_with_labels")
    used, waiting = {"evaluate"}, ["evaluate"]
    while waiting:
        for _, module, _ in imported_names(own[waiting.pop()]):
            if module in own and module not in used:
                used.add(module)
                waiting.append(module)
    for name in sorted(used):
        for what in sorted(_EXECUTES):
            for call in own[name].calls(what):
                of = ast.unparse(call.func)
                if what != "compile" or of == "compile":  # re.compile runs no code
                    draft.refuse(
                        task,
                        f"its evaluator executes code in its own process, beside the labels "
                        f"({name}.py:{call.lineno}: {of}), and cannot be separated",
                    )
                    return
        if name != "evaluate" and f"{name}.py" in _SCRIPTS:
            draft.refuse(task, f"evaluate.py imports {name}.py, and cannot be separated from it")


FORMAT = Format(
    name="airs-bench",
    says="a task of AIRS-Bench (tasks/rad/NAME); --data: the folder of its raw data",
    read=read,
    options=frozenset({"direction", "data", "seconds", "run_source"}),
)
