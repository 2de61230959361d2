import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcscientist.recipe.checks.locate import error_line, key_lines, line_of

DOCUMENT = """\
name = "x"
text = '''
[not.a.table]
name = 1
'''

[topic]
title = "t"
list = [
  "a",  # ] in a comment
  "[metrics]",
]
"odd key".inner = 1

[[metrics]]
name = "first"

[[metrics]]  # again
name = "second"
[metrics.extra]
deep = { name = 1 }

[a.b]
c.d = 1
"""


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("name",), 1),
        (("text",), 2),
        (("topic",), 7),
        (("topic", "title"), 8),
        (("topic", "list", 0), 10),
        (("topic", "list", 1), 11),
        (("topic", "odd key", "inner"), 13),
        (("metrics",), 15),
        (("metrics", 0, "name"), 16),
        (("metrics", 1), 18),
        (("metrics", 1, "name"), 19),
        (("metrics", 1, "extra", "deep", "name"), 21),
        (("metrics", 1, "missing"), 18),
        (("a", "b", "c", "d"), 24),
        (("nowhere",), 1),
    ],
)
def test_keys_are_found_at_their_lines(key, line):
    tomllib.loads(DOCUMENT)
    assert line_of(key_lines(DOCUMENT), key) == line


@pytest.mark.parametrize(
    ("text", "line"), [("a = 1\nb = \n", 2), ("a = 1\nb = [1,\n", 2), ("= 1\n", 1)]
)
def test_the_parsers_error_has_a_line(text, line):
    with pytest.raises(tomllib.TOMLDecodeError) as caught:
        tomllib.loads(text)
    assert error_line(caught.value, text) == line


VALUES = st.recursive(
    st.integers(-9, 9) | st.text(max_size=5) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


def keys(value: Any, key: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    return [key, *(found for name, item in items for found in keys(item, (*key, name)))]


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
def test_every_key_stands_where_it_is_said_to_be(document: dict[str, Any]) -> None:
    text = tomli_w.dumps(document, multiline_strings=True)
    lines, written = key_lines(text), text.split("\n")
    for key in keys(tomllib.loads(text))[1:]:
        if key in lines:
            assert 1 <= lines[key] <= len(written)
            continue
        # A table that is named by what is in it alone has no line of its own.
        assert any(known[: len(key)] == key for known in lines), key
