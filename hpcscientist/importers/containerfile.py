"""Translates a Dockerfile into an Apptainer definition, line by line, without Docker."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)\s+(.*)", re.DOTALL)
# Instructions without effect here: the image does not decide how and by whom it is started.
_IDLE = frozenset(
    "CMD ENTRYPOINT EXPOSE LABEL MAINTAINER STOPSIGNAL HEALTHCHECK USER VOLUME ONBUILD".split()  # noqa: SIM905
)


@dataclass
class Definition:
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


def read(text: str) -> Definition:  # noqa: PLR0912  (one branch an instruction)
    """Return a Dockerfile as a definition; instructions without an equivalent are `refused`."""
    found, place = Definition(), "/"
    for line in _instructions(text):
        match = _INSTRUCTION.fullmatch(line)
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


def _copy(found: Definition, rest: str, place: str) -> None:
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
