"""Odd values, texts and files for the generator: what people, models and disks come up with."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

# TOML literals. Some are not even TOML.
LITERALS = (
    *("10000000000000000000000000000000", "9223372036854775808", "-1", "0", "1", "1e308", "1e999"),
    *("inf", "-inf", "nan", "true", "1979-05-27", "07:32:00", '""', '" "', "''", "[]", "{}"),
    *('"\\u0000"', '"\\u202e"', '"\\r"', '"a\\nb"', '"/dev/zero"', '"/proc/self/mem"', '"%j"'),
    *('"~"', '"~nobody-of-this-name/x"', '"../../x"', '"/"', '"-x"', '"$HOME"', '"${NO_SUCH}/x"'),
    *('"vllm:/dev/null"', '"playbook:/dev/null"', '"http://[::1"', '"http://x:99999/v1#m"'),
    *('["a", 1]', "[[1]]", '[""]', "{a = 1}", "= =", '"unended', "[", "\ufeff1", '"\U0001f600"'),
    '"' + "x" * 5000 + '"',
)
NUMBERS = st.one_of(
    st.sampled_from([0, -1, 1, 2**31, 2**63, 10**18, 0.0, -0.0, 1e308, 0.5]), st.integers(-3, 12)
)
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["", " ", "\0", "\r", "\u202e", "\x1b[2J", "=1+1", "..", "/", "{}", "x" * 4000]
    ),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
_SCALAR = re.compile(r"^(\w+ = )(.+)$", re.MULTILINE)


@st.composite
def spoilt_toml(draw: st.DrawFn, text: str) -> str:
    """A document in which some values are others, or some lines are gone or given twice."""
    for _ in range(draw(st.integers(1, 3))):
        places = list(_SCALAR.finditer(text))
        if not places:
            break
        place = draw(st.sampled_from(places))
        literal = draw(st.sampled_from(LITERALS))
        how = draw(st.sampled_from(["other", "other", "other", "gone", "twice"]))
        new = {"other": place[1] + literal, "gone": "", "twice": f"{place[0]}\n{place[0]}"}[how]
        text = text[: place.start()] + new + text[place.end() :]
    return text


@st.composite
def spoilt_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """A file with a part replaced by another, or cut off somewhere."""
    start = draw(st.integers(0, len(content)))
    end = draw(st.integers(start, min(len(content), start + 200)))
    put = draw(
        st.one_of(
            st.binary(max_size=8),
            st.sampled_from([b"\0", b"\xff\xfe", b"\r", b"}", b"[", b'"', b"#", b"'''", b"\n\n"]),
        )
    )
    rest = b"" if draw(st.booleans()) else content[end:]
    return content[:start] + put + rest


@st.composite
def spoilt_json(draw: st.DrawFn, value: Any) -> Any:
    """A JSON value of which one part is another."""
    if not isinstance(value, dict | list) or not value or draw(st.integers(0, 4)) == 0:
        return draw(JSON)
    if isinstance(value, list):
        index = draw(st.integers(0, len(value) - 1))
        return [*value[:index], draw(spoilt_json(value[index])), *value[index + 1 :]]
    key = draw(st.sampled_from(sorted(value)))
    how = draw(st.integers(0, 5))
    if how == 0:
        return {name: inner for name, inner in value.items() if name != key}
    if how == 1:
        return {**value, draw(st.text(max_size=5)): draw(JSON)}
    return {**value, key: draw(spoilt_json(value[key]))}


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**35)


# What can lie where a file is expected.
ODD_FILES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "itself": lambda path: path.symlink_to(path.name),
    "nowhere": lambda path: path.symlink_to("nowhere"),
    "huge": _sparse,
    "empty": Path.touch,
}


def json_line(value: Any) -> str:
    """One line of JSON Lines, also of what no UTF-8 can say."""
    return json.dumps(value)
