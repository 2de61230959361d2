"""Ids as models write them, matched with those that they were shown."""

from __future__ import annotations

from collections.abc import Iterable

_AROUND = " \t\r\n[](){}<>`'\"*,;."  # models copy an id with the signs around it


def found_ids(named: Iterable[str], shown: Iterable[str]) -> tuple[str, ...]:
    """Return the shown ids among those named, each once, in the order in which they are named.

    An id that is named as it was shown is that one. Else the signs around it and then case do
    not matter, all else does; of several that differ in no more, the first that was shown is
    meant.
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
