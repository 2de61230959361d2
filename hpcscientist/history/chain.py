"""The seals by which the lines of a journal follow each other.

Each line's seal is made of the one before it and of its own text, with the campaign's key: a line
that is lost, was put in, or says something else breaks the chain there. Who lacks the key cannot
tell, and sees by the numbers of lines alone that one is lost. The lines of versions that wrote no
seals are held by the first one that has a seal. A journal of no campaign has seals without a key.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files import vault

_SIZE: Final = 32  # hexadecimal digits
_KEYED, _OPEN = b"k", b"h"  # the names of the field
_NO_KEY: Final = b"journal"


class Chain:
    """Where the chain of one journal is, as its lines are read or written."""

    def __init__(self) -> None:
        self._head, self._key, self._sealed = b"", _NO_KEY, b""
        self._campaign_id = ""

    def begin(self, campaign_id: str) -> None:
        """Take note whose journal it is, before its first line is sealed or followed."""
        self._campaign_id = campaign_id
        self._key = vault.campaign_key(campaign_id) or _NO_KEY

    def seal(self, text: bytes) -> bytes:
        """Return the next line, a JSON object, with its seal. Raises RunDirectoryError."""
        name = _OPEN if self._key is _NO_KEY else _KEYED
        if self._sealed == _KEYED and name == _OPEN:
            vault.require_campaign_key(self._campaign_id)
            raise RunDirectoryError(f"{self._campaign_id}: its key was not there a moment ago")
        self._head, self._sealed = self._made(text), name
        return _with(text, name, self._head)

    def follow(self, text: bytes) -> None:
        """Take the next line in, with its seal. Raises ValueError where it does not follow."""
        begin = len(text) - _SIZE - len(_with(b"}", _OPEN, b""))
        body, name, given = text[:begin] + b"}", text[begin + 2 : begin + 3], text[-_SIZE - 2 : -2]
        if _with(body, name, given) != text or self._sealed not in (b"", name):
            raise ValueError("a line without a seal")
        if name == _KEYED and self._key is _NO_KEY:
            made = given  # nobody can tell here
        else:
            made = self._made(body)
            if (name == _OPEN and self._key is not _NO_KEY) or made != given:
                raise ValueError("a line that does not follow the one before it")
        self._head, self._sealed = made, name

    def follow_unsealed(self, text: bytes) -> None:
        """Take in a line of a version that wrote no seals. Raises ValueError after one of ours."""
        if self._sealed:
            raise ValueError("a line without a seal")
        self._head = hashlib.sha256(self._head + text).hexdigest()[:_SIZE].encode()

    def copy(self) -> Chain:
        """Return one that goes on from here by itself."""
        other = Chain()
        other.__dict__.update(self.__dict__)
        return other

    def _made(self, body: bytes) -> bytes:
        return hmac.digest(self._key, self._head + body, "sha256").hex()[:_SIZE].encode()


def _with(text: bytes, name: bytes, made: bytes) -> bytes:
    return b'%b,"%b":"%b"}' % (text[:-1], name, made)
