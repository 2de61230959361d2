import tomllib

import pytest

from hpcscientist.recipe.locate import error_line, key_lines, line_of

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
        (("topic", "list", 1), 9),
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
