"""Imports autoresearch: prepare.py (data, tokenizer, evaluator), train.py (edited), program.md.

There the evaluator runs in the candidate's process, on text that the candidate can read. Here it
runs outside: the model predicts the distribution of the next token after contexts whose next token
it does not see, and the scorer computes bits per byte from these.
"""

from __future__ import annotations

import ast

from hpcscientist.errors import RecipeError
from hpcscientist.importers.draft import (
    Code,
    RecipeDraft,
    imported_names,
    template_text,
    with_modules,
)
from hpcscientist.importers.program import Program, knob_of
from hpcscientist.importers.request import Format, ImportRequest
from hpcscientist.importers.wrapped import RUNNER, code_files, give
from hpcscientist.recipe.checks.files import REFERENCE

_TRAIN, _PREPARE, _PROGRAM = "train.py", "prepare.py", "program.md"
_BUDGET, _SECONDS = "TIME_BUDGET", 300.0
_MOST_DESCRIPTION = 20_000
_WANTED = ("from_directory", "encode", "decode", "get_vocab_size")  # of class Tokenizer


def read(request: ImportRequest, draft: RecipeDraft) -> None:
    """Fill in the recipe of a task."""
    source = request.source
    for name in (_TRAIN, _PREPARE):
        if name not in source:
            raise RecipeError(f"{source.path}: has no {name}; give a folder like autoresearch's")
    train, prepare = (Program(name, source.text(name)) for name in (_TRAIN, _PREPARE))
    evaluator = _evaluator(draft, train, prepare)
    cache = _cache(draft, prepare)
    _tokenizer(draft, prepare)
    draft.maps(_TRAIN, "the code that ideas edit, reference/train.py")
    draft.maps(_PREPARE, "reference/prepare.py, which no idea edits; run as you for the data, too")
    draft.adapted(
        evaluator or "the evaluator",
        "moves out: the model writes distributions of hidden next tokens, and score.py measures "
        "bits_per_byte; what train.py prints is not read",
    )
    draft.commands.append("hpcsci recipe check {recipe} --run")
    draft.runs_source = True
    if request.data is None:
        draft.refuse("data", f"give what its {_PREPARE} made: --data ~/{cache or '.cache/NAME'}")
    else:
        give(draft, request, f"what the task's {_PREPARE} makes in ~/{cache}")
    draft.fill("prepare.py", "prepare_autoresearch", cache=cache, foreign=_holding(prepare))
    draft.fill("score.py", "score_next_tokens")
    seconds = _run(request, draft, train, prepare, evaluator)
    code_files(draft, {_TRAIN: train.source, _PREPARE: prepare.source})
    said = source.text(_PROGRAM) if _PROGRAM in source else ""
    if said:
        draft.adapted(_PROGRAM, "the topic's description; how its agent uses git is of no use here")
    else:
        draft.lost(_PROGRAM, "there is none: the description is plain")
    draft.document |= {
        "seeds": 5,
        "entry": RUNNER,
        "editable": [_TRAIN],
        "predictions": "predictions.npy",
        "topic": {
            "title": source.stem.replace("_", " ").replace("-", " ") or "a language model",
            "description": said[:_MOST_DESCRIPTION] or "Train the best language model in the time.",
            "inputs": "texts to train on, and contexts of tokens",
            "outputs": "for each context the distribution of the next token, by the trained model",
        },
        "metrics": [{"name": "bits_per_byte", "direction": "minimize"}],
        "budgets": {"pilot": {"seconds": seconds}, "full": {"seconds": seconds}},
        "resources": {"cpus": 1, "memory_mb": 16_384, "output_mb": 1024},
        "scorer": {"seconds": 300.0, "memory_mb": 16_384},
    }
    if any("cuda" in text for text in train.strings):
        draft.document["resources"] |= {"gpus": 1}
        draft.adapted("GPU", "train.py asks for CUDA: one GPU a trial")


def _evaluator(draft: RecipeDraft, train: Program, prepare: Program) -> str:
    """Return the name of the function with which train.py evaluates its model."""
    names = [
        what
        for _, module, what in imported_names(train)
        if module == "prepare" and what.startswith(("evaluate", "eval"))
    ]
    if len(names) != 1:
        draft.refuse(_TRAIN, f"imports {len(names)} evaluators from prepare.py, not one")
        return ""
    function = prepare.functions.get(names[0])
    if function is None or not function.args.args:
        draft.refuse(_PREPARE, f"has no function {names[0]} of a model")
    elif not any(word in names[0] for word in ("bpb", "bits", "loss", "perplexity", "ppl")):
        draft.refuse(
            _PREPARE,
            f"{names[0]} is not known to judge next tokens, so it cannot be moved out of the "
            "candidate's process; `recipe import script` takes its numbers as self-reported",
        )
    return names[0]


def _cache(draft: RecipeDraft, prepare: Program) -> str:
    """Return the path below the home folder where prepare.py keeps data."""
    for call in prepare.calls("join"):
        parts = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
        if call.args and "expanduser" in ast.dump(call.args[0]) and parts:
            return "/".join(map(str, parts)).removeprefix("~/")
    draft.refuse(_PREPARE, "keeps its data at no os.path.join(os.path.expanduser('~'), …)")
    return ""


def _tokenizer(draft: RecipeDraft, prepare: Program) -> None:
    """Check that the tokenizer and the validation text can be used from outside."""
    classes = {node.name: node for node in prepare.tree.body if isinstance(node, ast.ClassDef)}
    methods = (
        {getattr(n, "name", "") for n in classes["Tokenizer"].body}
        if "Tokenizer" in classes
        else set()
    )
    if lacking := [name for name in _WANTED if name not in methods]:
        draft.refuse(_PREPARE, f"its class Tokenizer has no {', '.join(lacking)}")
    if "_document_batches" not in prepare.functions:
        draft.refuse(_PREPARE, "has no _document_batches(split), which gives validation documents")
    names = {
        target.id
        for node in prepare.tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for name in ("VAL_FILENAME", "MAX_SEQ_LEN"):
        if name not in names:
            draft.refuse(_PREPARE, f"has no constant {name}")


def _run(
    request: ImportRequest, draft: RecipeDraft, train: Program, prepare: Program, evaluator: str
) -> float:
    """Add the script that runs train.py; return the seconds that a trial may take."""
    budget = prepare.constants.get(_BUDGET, (0, 0))[1]
    seconds = float(budget) if isinstance(budget, int | float) else 0.0
    if seconds:
        draft.adapted(_BUDGET, f"{seconds:g} s of training, a tenth of it in a pilot")
    else:
        draft.warn(_BUDGET, "prepare.py has none: a pilot is a whole run")
    knobs = [knob_of(n, v, _TRAIN) for n, (_, v) in train.constants.items()]
    draft.document["knobs"] = [knob for knob in knobs if knob is not None]
    draft.adapted(
        "seed", "those that random, NumPy and PyTorch are given are shifted by each trial's"
    )
    lines = [
        "OPTIONS, MORE, RESULTS = {}, [], ''",
        "SEED_OPTIONS, LENGTH_OPTIONS = [], []",
        f"EVALUATOR = {evaluator!r}  # of prepare.py",
        f"SECONDS = {seconds!r}  # of training, by prepare.py; 0: it does not say",
    ]
    draft.fill(
        f"{REFERENCE}/{RUNNER}",
        "run_program",
        program=_TRAIN,
        metrics={},
        predictions="predictions.npy",
        seeds=[],
        lengths=[],
        constants=Code("\n".join(lines)),
        before=Code(template_text("before_evaluation").rstrip()),
        read=Code(template_text("read_nothing").rstrip()),
    )
    return request.seconds or 2 * (seconds or _SECONDS) + 60


def _holding(prepare: Program) -> Code:
    return with_modules({"prepare": prepare.source})


FORMAT = Format(
    name="autoresearch",
    says="prepare.py, train.py, program.md; --data: what its prepare.py made in ~/.cache",
    read=read,
    options=frozenset({"data", "seconds", "run_source"}),
)
