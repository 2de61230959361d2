"""Lines of the journal, of this version and of earlier ones: these are read as if written today.

Each line says its version; the first version's did not. What a line of an earlier version lacks is
filled in from the lines before it and from the ideas' files. Files are never rewritten: a driver
that resumes appends lines of its own version. The second version lacked kinds of events, and fields
that say by their defaults that they were lacking; its lines are read as they stand. So are those of
the third, which had another word for the stage `seeds`, of the fourth, which kept the notes of
versions in their files alone, and of the fifth, which had no seals (see `history.upcasting`).
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

# The seals by which the lines of a journal follow each other.
#
# Each line's seal is made of the one before it and of its own text, with the campaign's key: a
# line that is lost, was put in, or says something else breaks the chain there. Who lacks the key
# cannot tell, and sees by the numbers of lines alone that one is lost. The lines of versions that
# wrote no seals are held by the first one that has a seal. A journal of no campaign has seals
# without a key.

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


VERSION: Final = 6
_CURRENT: Final = f'{{"v":{VERSION},'.encode()
_AS_THEY_STAND: Final = (b'{"v":5,', b'{"v":4,', b'{"v":3,')

# By type of event: the fields that version 1 lacked, and what it meant by that. Those that came
# in the course of version 1 are among them: its later lines have them.
_LACKED: Final[Mapping[str, Mapping[str, Any]]] = {
    "driver_started": {"package_version": "", "package_hash": "", "python": ""},
    "driver_stopped": {"lets_go": False},
    "reply_recorded": {"role": "", "asked": 1},
    "attempt_written": {"parent": 0, "kind": "draft", "note_hash": ""},
    "seeds_decided": {"given_up": False},
}
_ROLE_OF_1: Final = {"propose": "ideation"}  # of the calls that version 1 made


class Line(Record):
    """A line of the journal: its version, its number, its time in seconds since the epoch; `c`: it
    continues what was written together with the line before it; `k` or `h`: its seal.
    """

    model_config = ConfigDict(ser_json_inf_nan="constants")  # as `TrialReport`

    v: int = VERSION
    c: bool = False
    n: int
    t: float
    event: Event
    k: str = ""
    h: str = ""


def text_of(line: Line) -> bytes:
    """Return a new line as `group` takes it."""
    return line.model_dump_json(exclude={"c", "k", "h"}).encode()


def group(lines: Sequence[bytes], chain: Chain) -> bytes:
    """Return new lines as they are written together, with the next seals of a chain."""
    mark = _CURRENT + b'"c":true,'
    marked = [*lines[:1], *(mark + line.removeprefix(_CURRENT) for line in lines[1:])]
    return b"".join(chain.seal(line) + b"\n" for line in marked)


def is_torn(lines: Sequence[bytes]) -> bool:
    """Whether the last lines of a journal, of which the first cannot be read, may be what is left
    of the last writing: all that are whole may have been written together with what was before
    them. A group of which a power cut took parts, wherever in it, was not on the disk yet, and
    nothing was done about it.
    """
    return len(lines) == 1 or not any(map(_begins_a_group, lines))


def _begins_a_group(text: bytes) -> bool:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(raw, dict) and "event" in raw and raw.get("c") is not True


class Reader:
    """Reads the lines of one journal in their order. `root` is the run directory it lies in.

    `chain` is where the lines read so far have brought it.
    """

    def __init__(self, root: Path) -> None:
        self._paths = RunPaths(root)
        self._generation = 0
        self._lines = 0
        self.chain = Chain()

    def line(self, text: bytes) -> Line:
        """Return the next line. Raises ValueError where it is none, or not the next one;
        RunDirectoryError where a later version of the package wrote it.
        """
        text = text.removesuffix(b"\n")
        sealed = text.startswith(_CURRENT)
        line = Line.model_validate_json(text) if sealed else self._of_earlier(text)
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

    def _of_earlier(self, text: bytes) -> Line:
        if text.startswith(_AS_THEY_STAND):
            return Line.model_validate_json(text)
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
        return Line.model_validate_json(json.dumps(raw))

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
        """What version 1 looked up in an idea's file; an unusable proposal left none."""
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
            # Who needs the file itself says that it is gone or damaged.
            return {"arm": "model", "summary": "", "knobs": None, "shown": (), "idea_hash": ""}
