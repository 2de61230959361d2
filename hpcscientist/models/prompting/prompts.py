"""Prompts are files: Jinja templates in the prompts/ of the stage that asks, rendered with strict
undefined. What several stages share lies in this room's. No two have one name.

A rendered prompt is one user message: some chat templates refuse system messages.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path, PurePosixPath

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hpcscientist.models.prompting.quoting import tame

_ROOMS = Path(__file__).parents[2]
_LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".sh": "sh", ".md": "markdown"}


def render(template: str, **context: object) -> str:
    """Render TEMPLATE.md.j2, wherever it lies.

    Raises jinja2.UndefinedError when a name it uses is missing from `context`.
    """
    return _environment().get_template(f"{template}.md.j2").render(**context).strip()


def fence(text: str, name: str = "") -> str:
    """Return a code block whose fence is longer than any in the text itself."""
    text = str(text)  # an undefined name raises here
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    ticks = "`" * (longest + 1)
    language = _LANGUAGES.get(PurePosixPath(name).suffix, "")
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(sorted(_ROOMS.glob("*/prompts"))),
        undefined=StrictUndefined,
        autoescape=False,  # the output is a prompt, never a page
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,  # what follows an include starts on a line of its own
    )
    environment.filters["fence"] = fence
    environment.filters["tame"] = tame
    return environment
