"""Imports a task folder of Harbor: task.toml, instruction.md, environment/, tests/, maybe
solution/.

In Harbor an agent works in a container. Here an idea writes solve.sh and edits files of the working
directory, and the task's own tests judge the result in a separate container.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from hpcscientist.errors import RecipeError
from hpcscientist.files.handed import parse as parse_toml
from hpcscientist.importers.draft import RecipeDraft
from hpcscientist.importers.request import Format, ImportRequest
from hpcscientist.importers.source import LARGEST_TEXT, TaskFiles, table_of
from hpcscientist.recipe.checks.files import REFERENCE

# Translates a Dockerfile into an Apptainer definition, line by line, without Docker.


_LINE = re.compile(r"\s*([A-Za-z]+)\s+(.*)", re.DOTALL)
# Instructions without effect here: the image does not decide how and by whom it is started.
_IDLE = frozenset(
    "CMD ENTRYPOINT EXPOSE LABEL MAINTAINER STOPSIGNAL HEALTHCHECK USER VOLUME ONBUILD".split()  # noqa: SIM905
)


@dataclass
class ApptainerDefinition:
    """A translated Dockerfile. `copied` are sources in its context, with their targets."""

    base: str = ""
    workdir: str = "/app"
    post: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    copied: list[tuple[str, str]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def text(self, folder: str) -> str:
        """Return the definition file; it copies files from `folder`."""
        lines = ["Bootstrap: docker", f"From: {self.base}", ""]
        if self.copied:
            lines += ["%files"]
            lines += [f"    {folder}/{source} {target}" for source, target in self.copied] + [""]
        lines += ["%post", "    set -e", f"    mkdir -p {shlex.quote(self.workdir)}"]
        lines += [f"    {line}" for line in self.post]
        if self.variables:
            lines += ["", "%environment"]
            lines += [f"    export {k}={shlex.quote(v)}" for k, v in self.variables.items()]
        return "\n".join(lines) + "\n"


def read_containerfile(text: str) -> ApptainerDefinition:  # noqa: PLR0912  (one branch an instruction)
    """Return a Dockerfile as a definition; instructions without an equivalent are `refused`."""
    found, place = ApptainerDefinition(), "/"
    for line in _instructions(text):
        match = _LINE.fullmatch(line)
        if match is None:
            found.refused.append(f"{line[:60]!r} is no instruction")
            continue
        word, rest = match[1].upper(), match[2].strip()
        if "<<" in rest and word in ("RUN", "COPY"):
            found.refused.append(f"{word} with a text of its own (<<)")
        elif word == "FROM":
            if found.base:
                found.refused.append("it is built in stages (a second FROM)")
            found.base = found.base or rest.split()[0]
        elif word == "RUN":
            words = _words(rest)
            run = shlex.join(words) if words is not None else rest
            found.post.append(f"( {run} )")  # a subshell, so that each starts in WORKDIR
        elif word == "WORKDIR":
            place = rest if rest.startswith("/") else f"{place.rstrip('/')}/{rest}"
            found.workdir = place
            found.post += [f"mkdir -p {shlex.quote(place)}", f"cd {shlex.quote(place)}"]
        elif word in ("ENV", "ARG"):
            for name, value in _assigned(rest):
                found.post.append(f"export {name}={shlex.quote(value)}")
                if word == "ENV":
                    found.variables[name] = value
        elif word in ("COPY", "ADD"):
            _copy(found, rest, place)
        elif word in _IDLE:
            found.lost.append(f"{word} {rest[:40]}")
        else:
            found.refused.append(f"{word} {rest[:40]}")
    if not found.base:
        found.refused.append("it has no FROM")
    return found


def _instructions(text: str) -> Iterator[str]:
    """Yield instructions; one that spans several lines is yielded as one."""
    waiting = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#") or not (line.strip() or waiting):
            continue
        waiting += line.rstrip()
        if waiting.endswith("\\"):
            waiting = waiting[:-1] + "\\\n        "
            continue
        if waiting.strip():
            yield waiting.strip()
        waiting = ""
    if waiting.strip(" \\\n"):
        yield waiting.strip(" \\\n")


def _words(text: str) -> list[str] | None:
    """Return the words of a JSON list, such as ["a", "b"]; None for any other text."""
    import json  # noqa: PLC0415

    try:
        found = json.loads(text) if text.startswith("[") else None
    except ValueError:
        return None
    return [str(word) for word in found] if isinstance(found, list) else None


def _assigned(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of ENV and ARG, in both of their forms."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    if words and "=" not in words[0]:
        yield words[0], " ".join(words[1:])
        return
    for word in words:
        name, _, value = word.partition("=")
        if name.isidentifier():
            yield name, value


def _copy(found: ApptainerDefinition, rest: str, place: str) -> None:
    words = _words(rest)
    if words is None:
        words = [word for word in rest.split() if not word.startswith("--")]
        if "--from=" in rest:
            found.refused.append(f"COPY {rest[:40]}")
            return
    if len(words) < 2:
        found.refused.append(f"COPY {rest[:40]}")
        return
    target = words[-1] if words[-1].startswith("/") else f"{place.rstrip('/')}/{words[-1]}"
    target = target.replace("/./", "/").removesuffix("/.")
    for source in words[:-1]:
        if source.startswith(("http://", "https://", "/")) or ".." in source.split("/"):
            found.refused.append(f"COPY of {source}, which is not beside it")
        else:
            found.copied.append((source.removeprefix("./") or ".", target))


_TASK, _INSTRUCTION, _TEST = "task.toml", "instruction.md", "tests/test.sh"
_DOCKERFILE, _ENTRY, _SOLVE = "environment/Dockerfile", "run_task.py", "solve.sh"
_IMAGE, _DEFINITION = "environment.sif", "environment.def"
_EMPTY = """\
# What an agent would do, as a script: it runs in the task's working directory.
"""
_RULES = f"""

{_SOLVE} is run in the working directory, which the tests find as {{}}. Name files in it by relative
paths. There is no network.
"""
_UNITS = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2}


def read(request: ImportRequest, draft: RecipeDraft) -> None:
    """Fill in the recipe of a task."""
    source = request.source
    for name in (_TASK, _INSTRUCTION, _TEST):
        if name not in source:
            raise RecipeError(f"{source.path}: has no {name}; give the folder of one Harbor task")
    task = _task(source)
    environment = table_of(task, "environment")
    definition = _definition(source, draft, environment)
    files = _files(source, draft, definition)
    draft.put(f"{REFERENCE}/{_SOLVE}", _EMPTY)
    for name, text in files.items():
        draft.put(f"{REFERENCE}/{name}", text)
    draft.adapted(_INSTRUCTION, f"the topic's description; ideas write {_SOLVE} and edit the files")
    for name in source.below("tests"):
        draft.put(name, source.data(name))
    draft.maps("tests", "the scorer runs them, in a container of their own; no candidate sees them")
    draft.warn(
        "tests",
        "run what a candidate wrote beside the place of the reward: files that name that place are "
        "refused, and one that hides it is not told from one that earned its reward",
    )
    draft.warn("test split", "has the tests of validation: a confirmation has but fresh seeds")
    if source.below("solution"):
        draft.lost("solution", "is the answer: neither candidates nor models are shown it")
    seconds = float(table_of(task, "agent").get("timeout_sec") or 600.0)
    testing = float(table_of(task, "verifier").get("timeout_sec") or 600.0)
    draft.maps("timeouts", f"{seconds:g} s a trial, {testing:g} s of tests")
    draft.fill(f"{REFERENCE}/{_ENTRY}", "run_task", files=sorted(files))
    draft.fill(
        "score.py",
        "score_harbor",
        image=str(draft.folder / _IMAGE),
        workdir=definition.workdir,
        seconds=testing,
        variables=definition.variables,
    )
    draft.withholds = False  # tests are no labels that could leak
    draft.fill("prepare.py", "prepare_harbor", tests=draft.hash_of("tests"))
    _document(request, draft, task, seconds, testing, definition.workdir)
    draft.commands += [
        f"(cd {{recipe}} && apptainer build {_IMAGE} {_DEFINITION})",
        "hpcsci recipe check {recipe} --run",
    ]


def _task(source: TaskFiles) -> dict[str, Any]:
    try:
        return parse_toml(source.text(_TASK))
    except ValueError as error:
        raise RecipeError(f"is no TOML: {error}", source.path / _TASK) from error


def _definition(source: TaskFiles, draft: RecipeDraft, environment: Any) -> ApptainerDefinition:
    """Return the container's definition, and add its Apptainer file."""
    compose = [n for n in source.below("environment") if "compose" in PurePosixPath(n).name.lower()]
    if compose:
        draft.refuse(compose[0], "several containers at once cannot be had here")
    image = environment.get("docker_image")
    if _DOCKERFILE in source:
        found = read_containerfile(source.text(_DOCKERFILE))
        for what in found.refused:
            draft.refuse(_DOCKERFILE, f"{what} has no place in an Apptainer definition")
        for what in found.lost:
            draft.lost(f"{_DOCKERFILE}: {what}", "is nothing that a trial's container decides")
        draft.adapted(_DOCKERFILE, f"{_DEFINITION}, From {found.base}: build {_IMAGE} from it")
    elif isinstance(image, str) and re.fullmatch(r"[\w./:@-]+", image):
        found = ApptainerDefinition(base=image)
        draft.adapted("docker_image", f"{_DEFINITION}, From {image}: build {_IMAGE} from it")
    else:
        found = ApptainerDefinition()
        draft.refuse("environment", "has neither a Dockerfile nor a docker_image in task.toml")
    draft.warn("image", "trials need python3 in it, and Apptainer where they and the tests run")
    for name in source.below("environment"):
        draft.put(name, source.data(name))
    draft.put(_DEFINITION, found.text("environment"))
    if environment.get("allow_internet", True) is not False:
        draft.lost("network", "trials and tests have none: what they need must be in the image")
    return found


def _files(
    source: TaskFiles, draft: RecipeDraft, definition: ApptainerDefinition
) -> dict[str, str]:
    """Return the initial text files of the working directory, which ideas may edit."""
    found: dict[str, str] = {}
    for name, target in _copied(source, definition):
        inside = PurePosixPath(target)
        if not inside.is_relative_to(definition.workdir):
            continue
        place = inside.relative_to(definition.workdir).as_posix()
        if source.sizes[name] > LARGEST_TEXT or place in (_SOLVE, _ENTRY):
            draft.lost(name, "stays in the image: it is no text that ideas edit")
            continue
        try:
            found[place] = source.text(name)
        except RecipeError:
            draft.lost(name, "stays in the image: it is no text that ideas edit")
    if found:
        draft.maps(", ".join(found), "files of the working directory, which ideas edit")
    return found


def _copied(source: TaskFiles, definition: ApptainerDefinition) -> Iterator[tuple[str, str]]:
    """Yield files of environment/ and their paths in the container."""
    for given, target in definition.copied:
        root = "environment" if given == "." else f"environment/{given.rstrip('/')}"
        if root in source:
            into = target.endswith("/") or target == definition.workdir
            yield root, f"{target.rstrip('/')}/{PurePosixPath(root).name}" if into else target
        for name in source.below(root):
            if name != _DOCKERFILE:
                yield name, f"{target.rstrip('/')}/{name.removeprefix(root + '/')}"


def _document(
    request: ImportRequest,
    draft: RecipeDraft,
    task: Any,
    seconds: float,
    testing: float,
    workdir: str,
) -> None:
    environment, about = table_of(task, "environment"), table_of(task, "metadata")
    given = table_of(task, "task")
    memory = _mebibytes(environment.get("memory_mb") or environment.get("memory") or 2048)
    gpus = environment.get("gpus") or 0
    draft.maps("resources", f"{memory} MiB, {environment.get('cpus', 1)} CPUs, {gpus} GPUs")
    said = request.source.text(_INSTRUCTION)
    tags = about.get("tags") or given.get("keywords") or []
    draft.document |= {
        "seeds": 3,
        "entry": _ENTRY,
        "editable": [n.removeprefix(f"{REFERENCE}/") for n in draft.files if _is_editable(n)],
        "predictions": "workspace.tar",
        "image": _IMAGE,
        "topic": {
            "title": str(given.get("name") or request.source.stem),
            "description": said + _RULES.format(workdir),
            "inputs": f"the files of the working directory {workdir}",
            "outputs": "the working directory after solve.sh",
            "attributes": [str(tag) for tag in tags] if isinstance(tags, list) else [],
        },
        "metrics": [{"name": "reward", "direction": "maximize"}],
        "budgets": {"pilot": {"seconds": seconds}, "full": {"seconds": seconds}},
        "resources": {
            "cpus": max(1, int(environment.get("cpus") or 1)),
            "gpus": int(gpus),
            "memory_mb": max(64, memory),
            "output_mb": 1024,
        },
        "scorer": {"seconds": testing + 60, "memory_mb": max(4096, memory)},
    }


def _is_editable(name: str) -> bool:
    return name.startswith(f"{REFERENCE}/") and name != f"{REFERENCE}/{_ENTRY}"


def _mebibytes(given: object) -> int:
    """Return an amount such as 2048, "2G" or "512m" in MiB. Raises RecipeError."""
    if isinstance(given, int | float):
        return int(given)
    match = re.fullmatch(r"([0-9.]+)\s*([kmgt])i?b?", str(given).strip().lower())
    if match is None:
        raise RecipeError(f"{_TASK}: memory {given!r} is no amount, such as 2G")
    return int(float(match[1]) * _UNITS[match[2]])


FORMAT = Format(
    name="harbor",
    says="a task folder of Harbor; its container becomes an Apptainer definition",
    read=read,
)
