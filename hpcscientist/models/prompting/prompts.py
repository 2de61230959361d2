"""Prompts are files: Jinja templates in the prompts/ of the stage that asks, rendered with strict
undefined. What several stages share lies in this room's. No two have one name.

A rendered prompt is one user message: some chat templates refuse system messages.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path, PurePosixPath

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hpcscientist.files.text import one_line, visible

# Texts by strangers or by models, as prompts quote them: on one line, bounded and tamed.
#
# On one line a text cannot open a section of its own. What else could act on a model is taken
# out: invisible and control characters, which can hide words from people, and the marks that chat
# templates set between turns. Tokenizers find those marks inside a text, too, and would take
# "<|im_start|>" in an abstract for the beginning of a turn; with a space in it, it is some
# letters.

# Marks with a bar (Qwen, Llama 3 and 4, Phi, Command-R, Granite, gpt-oss; DeepSeek's bar is
# full-width) and with an underscore (Gemma, Baichuan, tool calls) are known by their form, also
# such as nobody has seen yet. Brackets have so many other uses that the rest is known by name.
_NAMES = (
    r"bos|eos|pad|unk|sep|mask|sop|eop|eod|eot|turn|think|thinking|tools?|sys|inst|system|user|"
    r"assistant|human|image|img|video|audio|escape|unused\d+|seed:\w+"
)
_TURNS = re.compile(
    r"[<＜](?=[|｜])|(?<=[|｜])(?=[>＞])|"
    r"[<＜](?=/?(?=[\w:-]{0,99}[_▁])[\w:-]{1,99}[>＞])|"
    rf"[<＜](?=/?(?:s|(?i:{_NAMES}))[>＞])|"
    r"[\[［](?=/?(?:INST|THINK|SYSTEM_PROMPT|MODEL_SETTINGS|AVAILABLE_TOOLS|"  # Mistral
    r"TOOL_(?:CALLS|RESULTS|CONTENT)|CALL_ID|ARGS|IMG(?:_BREAK|_END)?|(?:BEGIN_)?AUDIO|"
    r"TRANSCRIBE|PREFIX|MIDDLE|SUFFIX|UNUSED_TOKEN_\d+|[gs]MASK)[\]］])|"  # InternLM, GLM
    r"\[(?=\|\w+\|\])|"  # Exaone
    r"\](?=~!?b[\[\]])|\[(?=e~\[)"  # MiniMax
)


def line(text: str, limit: int) -> str:
    """Return a text as one line of at most `limit` characters; one that was cut ends in "…"."""
    start = text[: 8 * limit + 1000]  # a text of a gigabyte is not copied about
    shown = one_line(tame(start), None)
    if len(shown) <= limit and len(start) == len(text):
        return shown
    return shown[: limit - 1].rstrip() + "…"


def tame(text: str) -> str:
    """Return a text without what only machines see; line breaks and tabs stay.

    Marks of a chat's turns get spaces within; nothing else is added, and words stay whole.
    """
    return _TURNS.sub(lambda mark: mark.group() + " ", visible(text))


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
