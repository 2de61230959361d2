"""Reads and writes the journal's lines, and converts lines of earlier journal versions.

Each line names its version, except in version 1. Fields that a line of version 1 lacks are filled
in from earlier lines and from the ideas' files. Files are never rewritten: a driver that resumes
appends lines of the current version. Lines of versions 2 to 5 are read without conversion. Version
2 lacked some kinds of events, and some fields, whose defaults mean that they were missing. Version
3 had another word for the stage `seeds`, version 4 kept the notes of code versions only in their
files, and version 5 had no signatures.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict

from hpcscientist.errors import RunDirectoryError
from hpcscientist.files import vault
from hpcscientist.files.handed import read_regular
from hpcscientist.files.hashing import hash_bytes
from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.base import Record
from hpcscientist.records.events import CampaignStarted, Event
from hpcscientist.records.idea import Idea

# The signatures ("seals") that chain the lines of a journal.
#
# A line's signature is an HMAC of the previous signature and the line's text, with the campaign's
# key. A line that was lost, inserted or changed breaks the chain there. A reader without the key
# cannot check signatures, and detects lost lines by their numbers alone. The first signed line
# covers the lines of versions without signatures. A journal without a campaign key is signed with a
# fixed key.

_SIZE: Final = 32  # hexadecimal digits
_KEYED, _OPEN = b"k", b"h"  # the names of the field
_NO_KEY: Final = b"journal"


class SignatureChain:
    """The signature chain of one journal, up to the last line read or written."""

    def __init__(self) -> None:
        self._head, self._key, self._sealed = b"", _NO_KEY, b""
        self._campaign_id = ""

    def begin(self, campaign_id: str) -> None:
        """Load the campaign's key, before the first line is signed or checked."""
        self._campaign_id = campaign_id
        self._key = vault.campaign_key(campaign_id) or _NO_KEY

    def seal(self, text: bytes) -> bytes:
        """Return the next line, a JSON object, with its signature. Raises RunDirectoryError."""
        name = _OPEN if self._key is _NO_KEY else _KEYED
        if self._sealed == _KEYED and name == _OPEN:
            vault.require_campaign_key(self._campaign_id)
            raise RunDirectoryError(f"{self._campaign_id}: its key was not there a moment ago")
        self._head, self._sealed = self._made(text), name
        return _with(text, name, self._head)

    def follow(self, text: bytes) -> None:
        """Check the next line's signature and advance. Raises ValueError if it does not match."""
        begin = len(text) - _SIZE - len(_with(b"}", _OPEN, b""))
        body, name, given = text[:begin] + b"}", text[begin + 2 : begin + 3], text[-_SIZE - 2 : -2]
        if _with(body, name, given) != text or self._sealed not in (b"", name):
            raise ValueError("a line without a seal")
        if name == _KEYED and self._key is _NO_KEY:
            made = given  # cannot be checked without the key
        else:
            made = self._made(body)
            if (name == _OPEN and self._key is not _NO_KEY) or made != given:
                raise ValueError("a line that does not follow the one before it")
        self._head, self._sealed = made, name

    def follow_unsealed(self, text: bytes) -> None:
        """Advance over a line of a version without signatures. Raises ValueError after a signed
        line.
        """
        if self._sealed:
            raise ValueError("a line without a seal")
        self._head = hashlib.sha256(self._head + text).hexdigest()[:_SIZE].encode()

    def copy(self) -> SignatureChain:
        """Return an independent chain that continues from here."""
        other = SignatureChain()
        other.__dict__.update(self.__dict__)
        return other

    def _made(self, body: bytes) -> bytes:
        return hmac.digest(self._key, self._head + body, "sha256").hex()[:_SIZE].encode()


def _with(text: bytes, name: bytes, made: bytes) -> bytes:
    return b'%b,"%b":"%b"}' % (text[:-1], name, made)


VERSION: Final = 6
_CURRENT: Final = f'{{"v":{VERSION},'.encode()
_AS_THEY_STAND: Final = (b'{"v":5,', b'{"v":4,', b'{"v":3,')

# By type of event: the fields that version 1 lacked, and the values that this meant. Some were
# added during version 1, so its later lines have them.
_LACKED: Final[Mapping[str, Mapping[str, Any]]] = {
    "driver_started": {"package_version": "", "package_hash": "", "python": ""},
    "driver_stopped": {"lets_go": False},
    "reply_recorded": {"role": "", "asked": 1},
    "attempt_written": {"parent": 0, "kind": "draft", "note_hash": ""},
    "seeds_decided": {"given_up": False},
}
_ROLE_OF_1: Final = {"propose": "ideation"}  # roles of the calls in version 1; others are "code"


class JournalLine(Record):
    """A line of the journal: version `v`, number `n`, time `t` in seconds since the epoch; `c`: it
    was written together with the line before it; `k` or `h`: its signature with the campaign's key,
    or with the fixed key.
    """

    model_config = ConfigDict(ser_json_inf_nan="constants")  # as `TrialReport`

    v: int = VERSION
    c: bool = False
    n: int
    t: float
    event: Event
    k: str = ""
    h: str = ""


def text_of(line: JournalLine) -> bytes:
    """Return a new line as text, without a signature, for `group`."""
    return line.model_dump_json(exclude={"c", "k", "h"}).encode()


def group(lines: Sequence[bytes], chain: SignatureChain) -> bytes:
    """Return new lines as one group to write, with the next signatures of a chain."""
    mark = _CURRENT + b'"c":true,'
    marked = [*lines[:1], *(mark + line.removeprefix(_CURRENT) for line in lines[1:])]
    return b"".join(chain.seal(line) + b"\n" for line in marked)


def is_torn(lines: Sequence[bytes]) -> bool:
    """Return whether a journal's last lines, from the first unreadable one on, may be the torn rest
    of the last group: no later readable line begins a new group.

    A group that a power cut tore had not reached the disk, so nothing was done about its events.
    """
    return len(lines) == 1 or not any(map(_begins_a_group, lines))


def _begins_a_group(text: bytes) -> bool:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(raw, dict) and "event" in raw and raw.get("c") is not True


class JournalReader:
    """Reads the lines of one journal in order. `root` is the run directory.

    `chain` is the signature chain after the lines read so far.
    """

    def __init__(self, root: Path) -> None:
        self._paths = RunPaths(root)
        self._generation = 0
        self._lines = 0
        self.chain = SignatureChain()

    def line(self, text: bytes) -> JournalLine:
        """Return the next line. Raises ValueError if the text is no line or not the next one, and
        RunDirectoryError if a later version of the package wrote it.
        """
        text = text.removesuffix(b"\n")
        sealed = text.startswith(_CURRENT)
        line = JournalLine.model_validate_json(text) if sealed else self._of_earlier(text)
        if line.n != self._lines + 1:
            raise ValueError("a line is missing, or there twice")
        if line.n == 1 and isinstance(line.event, CampaignStarted):
            self.chain.begin(line.event.campaign_id)
        if sealed:
            self.chain.follow(text)
        else:
            self.chain.follow_unsealed(text)
        self._lines += 1
        return line

    def _of_earlier(self, text: bytes) -> JournalLine:
        if text.startswith(_AS_THEY_STAND):
            return JournalLine.model_validate_json(text)
        try:
            raw = json.loads(text)
            version = raw.get("v", 1)
            if type(version) is int and version == 1:
                raw = {**raw, "v": VERSION, "event": self._of_version_1(raw["event"])}
            elif version in (2, 3, 4, 5):
                raw = {**raw, "v": VERSION}
        except (AttributeError, KeyError, TypeError, RecursionError) as error:
            raise ValueError("no line of a journal") from error
        if type(version) is not int or version < 1 or version == VERSION:
            raise ValueError("no version of a journal, or not as it was written")
        if version > VERSION:
            raise RunDirectoryError(
                f"{self._paths.journal}: line {raw.get('n')} was written by a later version of "
                f"hpcscientist (journal version {version}, this one knows {VERSION}): install that "
                "version, and run the command again"
            )
        return JournalLine.model_validate_json(json.dumps(raw))

    def _of_version_1(self, event: dict[str, Any]) -> dict[str, Any]:
        event = {**_LACKED.get(event["type"], {}), **event}
        match event["type"]:
            case "driver_started":
                self._generation = event["generation"]
            case "trial_queued":
                event = {"generation": self._generation, **event}
            case "reply_recorded" if not event["role"]:
                event["role"] = _ROLE_OF_1.get(event["call"].partition("/")[0], "code")
            case "idea_proposed":
                event = {**self._of_idea_file(event["idea_id"]), **event}
        return event

    def _of_idea_file(self, idea_id: str) -> dict[str, Any]:
        """Return the fields that version 1 read from an idea's file, if the idea has one."""
        try:
            content = read_regular(self._paths.idea(idea_id).idea)
            idea = Idea.model_validate_json(content)
            return {
                "arm": idea.arm,
                "summary": idea.proposal.summary,
                "knobs": idea.knobs,
                "shown": idea.shown,
                "idea_hash": hash_bytes(content),
            }
        except (OSError, ValueError):
            # Code that needs the file itself reports that it is missing or damaged.
            return {"arm": "model", "summary": "", "knobs": None, "shown": (), "idea_hash": ""}
