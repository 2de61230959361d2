"""Analyses a Python program from its syntax tree, without running it.

An importer needs to know which numbers a script prints, which options it takes, what makes it
random and what makes it long.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import PurePosixPath

from hpcscientist.errors import RecipeError
from hpcscientist.recipe import knobs, packages
from hpcscientist.records.idea import KnobValue
from hpcscientist.records.trial import Direction

# Words of a metric's name that show its direction. A name with words of both is ambiguous.
_MINIMIZE = re.compile(
    r"\b(loss|error|err|mae|mse|rmse|rmsle|s?mape|mase|perplexity|ppl|bpb|bpc|kl|divergence|distance|"
    r"cost|nll|wer|cer|fid|regret|time|seconds|memory|logloss|deviation|bits)\b"
)
_MAXIMIZE = re.compile(
    r"\b(accuracy|acc|auc|auroc|auprc|f1|fbeta|precision|recall|score|reward|bleu|rouge|r2|map|ndcg|"
    r"mrr|iou|jaccard|tau|dice|kappa|correlation|spearman|pearson|hits|psnr|ssim|return|success|likelihood)\b"
)
_LABEL = re.compile(r"([^\W\d][\w @/%()^-]*?)\s*(?:[:=]|is|->)?\s*$")
# Lengths of training, which a pilot cuts down.
LONG = re.compile(
    r"(?:^|_)(epochs?|steps|iters?|iterations|rounds|n_?estimators|updates|episodes)$",
    re.IGNORECASE,
)
_NOT_LONG = re.compile(r"eval|log|warm|save|print|decay|per|accum|interval|every", re.IGNORECASE)
SEED = re.compile(
    r"^(?:random_?|rng_?|np_?|torch_?|global_?)?(?:seed|random_state)s?$", re.IGNORECASE
)
_NOT_A_KNOB = re.compile(
    r"(?:^|_)(?:evals?|test\w*|val|valid\w*|classes|folds?|log|gpus?)(?:_|$)", re.I
)
_SHARE = re.compile(r"dropout|momentum|beta|decay|ratio|frac|smoothing|gamma|alpha", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Option:
    """A command-line option as passed to `argparse`; `default` is None if it is unknown."""

    name: str
    default: KnobValue | None
    line: int
    choices: tuple[KnobValue, ...] = ()

    @property
    def constant(self) -> str:
        """The name of a constant that can replace the option."""
        return re.sub(r"\W", "_", self.name.lstrip("-")).upper()


@dataclass(frozen=True)
class Program:
    """A Python file. Raises RecipeError, with the line, if it does not parse."""

    name: str
    source: str

    def __post_init__(self) -> None:
        try:
            self.tree  # noqa: B018  (a program that is none is refused here)
        except RecipeError as error:
            raise RecipeError(f"{self.name}:{error.line or 1}: {error.problem}") from None

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return knobs.parse(self.source)

    @cached_property
    def constants(self) -> dict[str, tuple[int, KnobValue]]:
        """Module-level constants: line and value."""
        return knobs.constants(self.source)

    @cached_property
    def options(self) -> tuple[Option, ...]:
        """The options of all `add_argument` calls, in order."""
        return tuple(self._options())

    def _options(self) -> Iterator[Option]:
        for call in self.calls("add_argument"):
            names = [_value(arg) for arg in call.args]
            long = [n for n in names if isinstance(n, str) and n.startswith("--")]
            if long:
                given = {word.arg: word.value for word in call.keywords}
                default = _value(given.get("default"))
                if isinstance(_value(given.get("action")), str):
                    default = None  # a switch takes no value
                choices = given.get("choices")
                items = choices.elts if isinstance(choices, ast.List | ast.Tuple) else []
                values = tuple(v for v in map(_value, items) if v is not None)
                yield Option(long[0], default, call.lineno, values)

    def calls(self, name: str) -> Iterator[ast.Call]:
        """Yield calls of a function or method with this name, in the order of lines."""
        for node in sorted(self._calls, key=lambda call: (call.lineno, call.col_offset)):
            if name == (getattr(node.func, "id", None) or getattr(node.func, "attr", None)):
                yield node

    @cached_property
    def _calls(self) -> list[ast.Call]:
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]

    @cached_property
    def strings(self) -> dict[str, int]:
        """String constants, each with its first line."""
        found: dict[str, int] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.setdefault(node.value, node.lineno)
        return found

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """Functions at module level, by name."""
        return {node.name: node for node in self.tree.body if isinstance(node, ast.FunctionDef)}

    @cached_property
    def printed(self) -> dict[str, int]:
        """Labels under which numbers are printed, such as `val accuracy`, with their line."""
        found: dict[str, int] = {}
        for call in self.calls("print"):
            for label in _labels(call):
                found[label] = call.lineno
        return found

    @cached_property
    def fixed_seeds(self) -> dict[str, int]:
        """Seeds that calls fix to a number, such as `random_state=0`, with their line."""
        found: dict[str, int] = {}
        for call in sorted(self._calls, key=lambda each: each.lineno):
            for word in call.keywords:
                if word.arg == "random_state" and isinstance(_value(word.value), int):
                    found.setdefault(f"random_state={_value(word.value)}", call.lineno)
            name = getattr(call.func, "attr", None) or getattr(call.func, "id", "")
            if name in ("RandomState", "Random", "PRNGKey") and len(call.args) == 1:
                value = _value(call.args[0])
                if isinstance(value, int):
                    found.setdefault(f"{name}({value})", call.lineno)
        return found


def missing_packages(files: dict[str, str]) -> list[str]:
    """Return the packages that files import but this Python lacks; none is imported."""
    own = {PurePosixPath(name).parts[0].removesuffix(".py") for name in files}
    return [
        name for name in packages.imported(files) if name not in own and find_spec(name) is None
    ]


def direction_of(metric: str) -> Direction | None:
    """Return a metric's direction by the words of its name; None if they do not show it."""
    parted = re.sub(r"([a-z])([A-Z])", r"\1 \2", metric)  # valLoss; unsplit too, for mAP
    words = re.sub(r"[^a-z0-9]+", " ", f"{parted} {metric}".lower())
    lower, higher = bool(_MINIMIZE.search(words)), bool(_MAXIMIZE.search(words))
    if lower == higher:
        return None
    return Direction.MINIMIZE if lower else Direction.MAXIMIZE


def is_length(name: str) -> bool:
    """Return whether a name is a training length, which a pilot may shorten."""
    return bool(LONG.search(name)) and not _NOT_LONG.search(name)


def knob_of(name: str, value: KnobValue, file: str) -> dict[str, object] | None:
    """Return a knob for recipe.toml around a constant's value; None if there should be none.

    A knob for the training length or the evaluation would improve scores by itself.
    """
    if isinstance(value, bool | str) or not name.isupper() or value <= 0:
        return None
    if SEED.match(name) or is_length(name) or _NOT_A_KNOB.search(name):
        return None
    knob: dict[str, object] = {"name": name, "file": file}
    if isinstance(value, int):
        if value < 2:
            return None
        return knob | {"type": "int", "low": max(1, value // 4), "high": value * 4, "log": True}
    if _SHARE.search(name) and value < 1:
        return knob | {"type": "float", "low": value / 2, "high": 1 - (1 - value) / 2}
    return knob | {"type": "float", "low": value / 10, "high": value * 10, "log": True}


def _value(node: ast.expr | None) -> KnobValue | None:
    try:
        value = ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, int | float | str | bool) else None


def _labels(call: ast.Call) -> Iterator[str]:
    """Yield the words right before a number in what a call prints."""
    parts: list[ast.expr] = []
    for arg in call.args:
        parts += arg.values if isinstance(arg, ast.JoinedStr) else [arg]
    for before, after in pairwise(parts):
        text = _value(before)
        if isinstance(text, str) and not isinstance(_value(after), str):
            found = _LABEL.search(re.split(r"[\n|,;]", text)[-1])
            if found and found[1].strip():
                yield found[1].strip()
    for arg in call.args:  # "accuracy: %.3f" % value, "accuracy: {}".format(value)
        template = _template(arg)
        for piece in re.split(r"%[-+0-9.]*[dfge]|\{[^{}]*\}", template)[:-1] if template else ():
            found = _LABEL.search(re.split(r"[\n|,;]", piece)[-1])
            if found and found[1].strip():
                yield found[1].strip()


def _template(node: ast.expr) -> str:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        text = _value(node.left)
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "format":
        text = _value(getattr(node.func, "value", None))
    else:
        return ""
    return text if isinstance(text, str) else ""
