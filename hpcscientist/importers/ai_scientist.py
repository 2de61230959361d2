"""Imports a template of The AI Scientist: experiment.py, prompt.json, seed_ideas.json, plot.py,
run_0.

Its experiment.py computes the metrics that judge ideas, and ideas edit that file. So the metrics
are self-reported, unless a shipped recipe is based on the template: then that recipe's reference,
data and scorer are used, with the template's own ideas.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any

from hpcscientist.errors import RecipeError
from hpcscientist.importers.draft import RecipeDraft, base_on
from hpcscientist.importers.program import Program
from hpcscientist.importers.request import Format, ImportRequest
from hpcscientist.importers.source import TaskFiles, json_document
from hpcscientist.importers.wrapped import Wrapping, choose_metrics, code_files, prepare_own, wrap
from hpcscientist.recipe.checks.files import SEED_IDEAS
from hpcscientist.recipe.load import shipped_folder

_ENTRY, _RESULTS = "experiment.py", "run_0"
_INFO = f"{_RESULTS}/final_info.json"
_SHIPPED: Mapping[str, tuple[str, ...]] = {  # strings or classes that identify each template
    "diffusion2d": ("kl_divergence", "MLPDenoiser"),
    "grokking": ("step_val_acc_99", "x_div_y"),
    "char-lm": ("shakespeare_char", "CausalSelfAttention"),
}
_LEFT_OUT = {
    "plot.py": "draws from folders run_1, run_2, …; `hpcsci report` and `paper` draw figures here",
    "latex": "papers are laid out by venues here; see hpcsci paper --venue",
    "ideas.json": "ideas of an earlier run are no part of a task",
}


def read(request: ImportRequest, draft: RecipeDraft) -> None:
    """Fill in the recipe of a template."""
    source = request.source
    if _ENTRY not in source:
        raise RecipeError(f"{source.path}: has no {_ENTRY}; give a template's folder")
    program = Program(_ENTRY, source.text(_ENTRY))
    known = None if request.self_reported or request.scorer else _shipped(program)
    if known is not None:
        _take_shipped(request, draft, known)
    else:
        _take_own(request, draft, program)
    _ideas(source, draft)
    for name, why in _LEFT_OUT.items():
        if name in source or source.below(name):
            draft.lost(name, why)


def _take_shipped(request: ImportRequest, draft: RecipeDraft, known: str) -> None:
    """Use the shipped recipe that is based on this template."""
    for option in ("metric", "direction", "data", "seconds", "predictions"):
        if getattr(request, option) is not None:
            raise RecipeError(
                f"--{option}: this is the template of the shipped recipe {known!r}, which has its "
                "own; leave it out, or give --self-reported"
            )
    base_on(draft, shipped_folder() / known)
    draft.adapted(
        _ENTRY,
        f"its metric is computed in the file that ideas edit: the shipped recipe {known!r} has the "
        "same method, with predictions that a scorer holds against what no idea sees "
        "(--self-reported keeps this file)",
    )
    metrics = ", ".join(each["name"] for each in draft.document["metrics"])
    draft.maps("score.py, prepare.py", f"those of {known!r}; measured: {metrics}")
    draft.commands.append("hpcsci launch --recipe {recipe} --model search --ideas 8")


def _take_own(request: ImportRequest, draft: RecipeDraft, program: Program) -> None:
    """Use the template's own experiment.py."""
    source = request.source
    draft.maps(_ENTRY, "the code that ideas edit, reference/experiment.py")
    draft.commands.append("hpcsci launch --recipe {recipe} --model search --ideas 8")
    outs = [o for o in program.options if o.name in ("--out_dir", "--out-dir")]
    if not outs:
        draft.refuse(_ENTRY, "takes no --out_dir, where a template writes final_info.json")
    option = outs[0].name if outs else "--out_dir"
    files = {n: t for n in source.sizes if (t := _code(source, n)) is not None}
    if request.scorer is None:
        infos = _infos(source)
        means = _means(infos) if infos else {}
        known: dict[str, int | str] = dict.fromkeys(means or _named_metrics(program), _ENTRY)
        names = choose_metrics(draft, request, known)
        for name in _data_files(source, files):
            draft.put(f"data/{name}", source.data(name))
            draft.maps(name, "shown to every trial in its working directory")
        prepare_own(draft, request)
        if names and infos is not None and names[0] in means:
            number = means[names[0]]
            draft.document["published"] = {"value": number, "source": f"the template's {_INFO}"}
            draft.maps(_INFO, f"the published number, {names[0]} {number:.6g}")
    else:
        names = choose_metrics(draft, request, {})
    wrapping = Wrapping(program, "read_final_info", (option, _RESULTS), _RESULTS)
    wrap(draft, request, wrapping, names)
    code_files(draft, files)
    for text, line in program.strings.items():
        if text.startswith("../"):
            draft.warn(f"{_ENTRY}:{line}", f"{text!r} leads out of a trial's folder: change it")
    prompt = _prompt(source)
    if "system" in prompt:
        draft.lost("prompt.json: system", "models are told what they are by prompts of their own")
    said = str(prompt.get("task_description") or f"Improve what {_ENTRY} computes.")
    if "task_description" in prompt:
        draft.maps("prompt.json: task_description", "the topic's description")
    draft.document["topic"] = {
        "title": source.stem.replace("_", " ").replace("-", " ").strip() or "a template",
        "description": said,
        "inputs": "what experiment.py reads or makes",
        "outputs": "final_info.json: means of metrics by data set",
    }


def _shipped(program: Program) -> str | None:
    """Return the name of the shipped recipe that is based on this template, if any."""
    names = {n.name for n in ast.walk(program.tree) if isinstance(n, ast.ClassDef)}
    there = names | program.strings.keys()
    return next((recipe for recipe, marks in _SHIPPED.items() if there.issuperset(marks)), None)


def _code(source: TaskFiles, name: str) -> str | None:
    """Return a Python file that experiment.py may import; None for any other file."""
    is_code = name.endswith(".py") and name not in _LEFT_OUT and not name.startswith("run_")
    return source.text(name) if is_code else None


def _data_files(source: TaskFiles, files: Mapping[str, str]) -> Iterator[str]:
    """Yield files that are neither code nor other parts of a template."""
    others = ("prompt.json", SEED_IDEAS, "requirements.txt", *_LEFT_OUT)
    for name in source.sizes:
        first = name.partition("/")[0]
        beside = first in others or first.startswith("run_") or first.lower().startswith("readme")
        if name not in files and not beside:
            yield name


def _prompt(source: TaskFiles) -> dict[str, Any]:
    found = json_document(source, "prompt.json") if "prompt.json" in source else {}
    return found if isinstance(found, dict) else {}


def _infos(source: TaskFiles) -> dict[str, Any] | None:
    found = json_document(source, _INFO) if _INFO in source else None
    return found if isinstance(found, dict) else None


def _means(infos: Mapping[str, Any]) -> dict[str, float]:
    """Return each metric's mean over the data sets, computed as in the recipe's script."""
    found: dict[str, list[float]] = {}
    for info in infos.values():
        own = info.get("means", info) if isinstance(info, dict) else {}
        for name, value in own.items() if isinstance(own, dict) else ():
            if isinstance(value, int | float) and not isinstance(value, bool):
                found.setdefault(name, []).append(float(value))
    return {name: sum(values) / len(values) for name, values in found.items()}


def _named_metrics(program: Program) -> list[str]:
    """Return the metrics that a program's source names: keys of `means` or of `final_info`."""
    direct: list[str] = []
    summed: list[str] = []
    is_mean = any(
        isinstance(node, ast.JoinedStr)
        and isinstance(node.values[-1], ast.Constant)
        and node.values[-1].value == "_mean"
        for node in ast.walk(program.tree)
    )
    for node in ast.walk(program.tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if getattr(key, "value", None) == "means" and isinstance(value, ast.Dict):
                    direct += _keys(value)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            target = getattr(node.targets[0], "id", "")
            if target == "means":
                direct += _keys(node.value)
            elif target == "final_info" and is_mean:
                summed += [f"{key}_mean" for key in _keys(node.value)]
    return list(dict.fromkeys(direct or summed))


def _keys(node: ast.Dict) -> list[str]:
    return [k.value for k in node.keys if isinstance(k, ast.Constant) and isinstance(k.value, str)]


def _ideas(source: TaskFiles, draft: RecipeDraft) -> None:
    """Add the template's seed ideas to the recipe's."""
    if SEED_IDEAS not in source:
        draft.lost(SEED_IDEAS, "there is none: the first ideas have no examples")
        return
    given = json_document(source, SEED_IDEAS)
    ideas = json.loads(draft.files[SEED_IDEAS]) if SEED_IDEAS in draft.files else []
    taken = 0
    for idea in given if isinstance(given, list) else []:
        if not isinstance(idea, dict) or not str(idea.get("Title") or "").strip():
            draft.lost(SEED_IDEAS, "an entry without a Title is none")
            continue
        title, plan = str(idea["Title"]), str(idea.get("Experiment") or idea["Title"])
        ideas.append(
            {
                "title": title[:200],
                "hypothesis": title,
                "method": plan,
                "experiment_plan": plan,
                "summary": f"{title}. {plan}",
                **{
                    key.lower(): min(10, max(1, int(idea[key])))
                    for key in ("Interestingness", "Feasibility", "Novelty")
                    if isinstance(idea.get(key), int | float)
                },
            }
        )
        taken += 1
    draft.put(SEED_IDEAS, json.dumps(ideas, indent=1, ensure_ascii=False) + "\n")
    draft.maps(SEED_IDEAS, f"ideas taken: {taken}; Experiment is the method and the plan")


FORMAT = Format(
    name="ai-scientist",
    says="a template of The AI Scientist; self-reported unless --scorer or a shipped one is there",
    read=read,
    options=frozenset(
        {"metric", "direction", "scorer", "predictions", "data", "seconds", "self_reported"}
    ),
)
