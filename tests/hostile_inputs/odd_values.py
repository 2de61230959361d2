"""Odd values, texts and files for the generator: what people, models and disks come up with."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

DEPTHS = (
    60,
    250,
    700,
    *range(980, 1_000),
    5_000,
    100_000,
)  # around what parsers and recursion bear
NUMBERS = (
    *("0", "1", "-1", "3", "7.5", "-0.0", "0.5", "1e308", "1e-320", "100", "4294967296"),
    *(str(2**53), str(2**53 + 1), str(2**63 - 1), str(2**63), str(10**19), str(10**30), "-1e30"),
)
# What texts hold, as JSON and TOML alike write it between double quotes.
INSIDE = (
    *(
        "",
        " ",
        "\\u0000",
        "a\\u0000b",
        "\\r",
        "a\\r\\nb",
        "\\t",
        "\\u001b[2J",
        "\\u0007",
        "\\ufeff",
    ),
    *(
        "\\u202e",
        "a\\u2028b",
        "\u202eb",
        "\\u2066x",
        "=1+1",
        "@x",
        "..",
        "/",
        "../../x",
        "/dev/zero",
    ),
    *(
        "/proc/self/mem",
        "~",
        "~nobody-of-this-name/x",
        "-x",
        "$HOME",
        "{}",
        "{{ 7 * 7 }}",
        "%s%n%j",
    ),
    *("\U0001f600", "e\u0301", "[red]x", "```", "a,b", '\\"', "\\\\", "x" * 5_000, "a " * 40_000),
    *("nan", "playbook", "search", "playbook:/dev/zero", "vllm:/dev/null", "http://[::1"),
    *(
        "http://x:99999/v1#m",
        "http://127.0.0.1:1/v1#m",
        "x.jsonl",
        "./moons",
        "--help",
        "circle",
        "circle/x",
    ),
)
STRINGS = tuple(f'"{inside}"' for inside in INSIDE)
BROKEN = ('"unended', "[", "}", "", ",", "= =", "'x'", "\ufeff1", "\x00", "9" * 5_000)


def deep(opening: str, closing: str, within: str = "") -> tuple[str, ...]:
    """Values within each other."""
    return tuple(opening * depth + within + closing * depth for depth in DEPTHS)


# Each is written where a value stands. Some are not even TOML, or JSON.
TOML_VALUES = st.sampled_from(
    (
        *NUMBERS,
        *STRINGS,
        *BROKEN,
        *("1e999", "inf", "-inf", "nan", "true", "false", "1979-05-27", "07:32:00", "''", "[]"),
        *("{}", '["a", 1]', "[[1]]", '[""]', '["/dev/zero"]', "{a = 1}", '{"" = {}}', "0x1f"),
        *deep("[", "]"),
        *deep("{a = ", "}", "1"),
    )
)
JSON_VALUES = st.one_of(
    st.sampled_from(
        (
            *NUMBERS,
            *STRINGS,
            *BROKEN,
            *(
                "null",
                "true",
                "false",
                "NaN",
                "Infinity",
                "-Infinity",
                "1e999",
                "[]",
                "{}",
                "[null]",
            ),
            *('["a"]', '[""]', '[["a"]]', '{"a": 1}', '{"": null}', '[{"title": "x"}]'),
            *('"\\ud800"', '"\\udfff\\ud800"', '{"\\ud800": 1}', '{"a": 1, "a": 2}'),
            *deep("[", "]"),
            *deep('{"a": ', "}", "1"),
            '"' + "y" * 1_100_000 + '"',
        )
    ),
    st.text(max_size=12).map(json.dumps),
    st.integers(-3, 12).map(str),
)
BYTES = st.one_of(
    st.binary(max_size=8),
    st.sampled_from(
        (
            *(b"\0", b"\xff\xfe", b"\r", b"}", b"[", b'"', b"#", b"'''", b"\n\n", b"\xed\xa0\x80"),
            *(b"\xe2\x80\xae", b"\xc2\x85", b"\x1b[2J", b"(" * 300, b"[" * 9_000, b"-" * 9_000),
            b"\n" * 70_000,
        )
    ),
)
# Whole files, saved as other programs save them.
REWRITTEN: dict[str, Callable[[bytes], bytes]] = {
    "with a BOM": lambda content: b"\xef\xbb\xbf" + content,
    "with CRLF": lambda content: content.replace(b"\n", b"\r\n"),
    "with CR": lambda content: content.replace(b"\n", b"\r"),
    "as UTF-16": lambda content: content.decode("utf-8", "replace").encode("utf-16"),
    "twice": lambda content: content + content,
    "backwards": lambda content: content[::-1],
    "cut in half": lambda content: content[: len(content) // 2],
    "of blanks": lambda content: b" \n" * 100,
    "of noise": lambda content: bytes(range(256)) * 40,
    "of zeros": lambda content: bytes(70_000),
}


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 2**35)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.open(path.parent, os.O_RDONLY)  # paths of sockets are short
        try:
            bound.bind(f"/proc/self/fd/{here}/{path.name}")
        finally:
            os.close(here)


# What can lie where a file is expected.
ODD_FILES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a terminal": lambda path: path.symlink_to("/dev/tty"),
    "itself": lambda path: path.symlink_to(path.name),
    "nowhere": lambda path: path.symlink_to("nowhere"),
    "the folder above": lambda path: path.symlink_to(".."),
    "huge": _sparse,
    "empty": Path.touch,
}
# Names that a file system takes.
ODD_NAMES = (
    *("x", "a b", "a\nb", "\u202ex", "-x", "x" * 255, "\udcff", "x\udcffy.py", "a\rb.py", "=1"),
    *("$x", "{}", "__pycache__", ".hidden", "CON", "\U0001f600.py", "recipe.toml.bak", "library"),
)
