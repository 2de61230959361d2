"""Reads files, packages and data as models name them, and checks them against reference code.

Models fill a list with prose when they have nothing to name ("none", "no extra data", "the training
set (already provided)"), and put words around a name. Text that is no name is ignored: an idea
should not be set aside for the wording of its estimate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from hpcscientist.models.prompting.prompts import line

_LONGEST = 200  # characters of a name
_FILE = re.compile(r"(?:[\w.-]+/)*[\w-][\w.-]*\.[A-Za-z]\w*")
_PACKAGE = re.compile(
    r"(?:(?:import|from)\s+)?([A-Za-z_][\w-]*)(?:\.[\w.]+)?"  # a module or a statement,
    r"(?:\s+(?:import|as)\s.*|\s*\[.*|\s*[<>=!~].*|\s*\(.*\))?"  # extras, version, remark
)
_QUOTES = re.compile(r"[`'\"]")
_NONE = re.compile(
    r"\W*(?:(?:no|none|nothing|n/?a|null|nil|nan|empty|stdlib)\b|"
    r"not\b(?! (?:yet )?(?:provided|given|there|included|available|existing)\b)).*|\W*",
    re.DOTALL,
)
_THERE = re.compile(
    r"\b(?:provided|existing|exists?|given|already|available|included|built-?in|same|unchanged|"
    r"generated|synthetic|synthesi[sz]ed|simulated|on[ -]the[ -]fly)\b"
)
# With one of these, "the labels, not provided" and "existing corpora, to be downloaded" are needs.
_WANTED = re.compile(
    r"\b(?:not|never|nor|without|unavailable|missing|must|needs?|needed|requires?|required|"
    r"download\w*|external|extra|additional|further|other|beyond|larger)\b|n['’]t\b"
)


def files(named: Iterable[str], reference: Iterable[str]) -> tuple[str, ...]:
    """Return the files in such texts as "`reference/experiment.py` (train)", each once.

    A file must have an extension that the reference uses, which excludes "np.random".
    """
    kinds = {PurePosixPath(name).suffix for name in reference}
    found = (path for text in named for path in _FILE.findall(line(text, _LONGEST)))
    plain = (path.removeprefix("./").removeprefix("reference/") for path in found)
    return tuple(dict.fromkeys(path for path in plain if PurePosixPath(path).suffix in kinds))


def packages(named: Iterable[str]) -> tuple[str, ...]:
    """Return the packages in such texts as "import torch.nn" or "numpy>=1.26", each once."""
    texts = (_QUOTES.sub("", line(text, _LONGEST)).strip(" .,;") for text in named)
    found = (_PACKAGE.fullmatch(text) for text in texts if not _NONE.fullmatch(text.casefold()))
    names = dict.fromkeys(match.group(1) for match in found if match)
    return tuple(name for name in names if not _THERE.fullmatch(name.casefold()))


def data(named: Iterable[str], reference: Mapping[str, str]) -> tuple[str, ...]:
    """Return the data that are named and not there yet, each once.

    Left out are files that the reference reads itself, and data said to be provided or made by the
    code. Only a model can tell the name of data from a remark on it, so errors occur both ways.
    """
    texts = dict.fromkeys(line(text, _LONGEST).strip(" `'\"") for text in named)
    return tuple(
        text for text in texts if not _is_nothing(text.casefold()) and not _is_read(text, reference)
    )


def _is_nothing(text: str) -> bool:
    return bool(_NONE.fullmatch(text) or (_THERE.search(text) and not _WANTED.search(text)))


def _is_read(text: str, reference: Mapping[str, str]) -> bool:
    names = [PurePosixPath(path).name for path in _FILE.findall(text)]
    return bool(names) and all(any(name in code for code in reference.values()) for name in names)


# Matches ids as models write them with the ids that they were shown.

_AROUND = " \t\r\n[](){}<>`'\"*,;."  # models copy an id with the punctuation around it


def found_ids(named: Iterable[str], shown: Iterable[str]) -> tuple[str, ...]:
    """Return the shown ids among those named, each once, in the order in which they are named.

    An exact match wins. Otherwise punctuation around the id is ignored, and then case too. If
    several ids match, the one shown first is taken.
    """
    ids = tuple(shown)
    known = [(form, {form(name): name for name in reversed(ids)}) for form in _FORMS]
    found = (
        next((of[form(name)] for form, of in known if form(name) and form(name) in of), None)
        for name in named
    )
    return tuple(dict.fromkeys(name for name in found if name is not None))


def _bare(name: str) -> str:
    return name.strip(_AROUND)


def _plain(name: str) -> str:
    return _bare(name).casefold()


_FORMS = (str, _bare, _plain)
