"""Renders prompts from Jinja templates and makes quoted text safe for them.

A room's templates are in its file prompts.md.j2, each below a line `=== NAME ===`; those that
several rooms share are in that of `models`. Names are unique, and undefined variables raise. A
rendered prompt is one user message: some chat templates refuse system messages.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path, PurePosixPath

from jinja2 import DictLoader, Environment, StrictUndefined

from hpcscientist.files.text import one_line, parts_of, visible

# Texts by strangers or by models, as prompts quote them: on one line, bounded and tamed.
#
# On one line, a text cannot open a section of its own. Anything else that could act on a model is
# removed: invisible and control characters, which can hide words from people, and the marks that
# chat templates set between turns. Tokenizers find those marks inside a text, too, and would read
# "<|im_start|>" in an abstract as the beginning of a turn; with a space in it, it is plain text.

# Marks with a bar (Qwen, Llama 3 and 4, Phi, Command-R, Granite, gpt-oss; DeepSeek's bar is
# full-width) and with an underscore (Gemma, Baichuan, tool calls) are matched by their form, which
# covers unknown ones too. Brackets have too many other uses, so the rest are matched by name.
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
    start = text[: 8 * limit + 1000]  # avoids copies of a huge text
    shown = one_line(tame(start), None)
    if len(shown) <= limit and len(start) == len(text):
        return shown
    return shown[: limit - 1].rstrip() + "…"


def tame(text: str) -> str:
    """Return a text without invisible characters and chat marks; line breaks and tabs stay.

    Marks of a chat's turns get a space inside; nothing else is added, and words stay whole.
    """
    return _TURNS.sub(lambda mark: mark.group() + " ", visible(text))


_ROOMS, _FILE = Path(__file__).parents[2], "prompts.md.j2"
_LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".sh": "sh", ".md": "markdown"}


def render(template: str, **context: object) -> str:
    """Render the template of this name.

    Raises jinja2.UndefinedError when a name it uses is missing from `context`.
    """
    return _environment().get_template(template).render(**context).strip()


def fence(text: str, name: str = "") -> str:
    """Return a code block whose fence is longer than any in the text itself."""
    text = str(text)  # an undefined name raises here
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    ticks = "`" * (longest + 1)
    language = _LANGUAGES.get(PurePosixPath(name).suffix, "")
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"


def templates(room: Path) -> dict[str, str]:
    """Return a room's templates by name."""
    return parts_of((room / _FILE).read_text("utf-8"))


@functools.cache
def _environment() -> Environment:
    rooms = sorted(file.parent for file in _ROOMS.glob(f"*/{_FILE}"))
    environment = Environment(
        loader=DictLoader({name: text for room in rooms for name, text in templates(room).items()}),
        undefined=StrictUndefined,
        autoescape=False,  # the output is a prompt, never a page
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,  # text after an include starts on its own line
    )
    environment.filters["fence"] = fence
    environment.filters["tame"] = tame
    return environment
