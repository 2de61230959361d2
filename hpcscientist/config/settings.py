"""What can be configured. `hpcsci config show` lists every key with its value and origin."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hpcscientist.records.base import Record


class ClientSettings(Record):
    """How an OpenAI-compatible endpoint is called. Seconds and counts.

    `timeout_s` bounds one whole try, from connecting to the last byte. `retries` counts the
    tries after the first. Between tries the client waits `backoff_s`, doubled each time,
    plus a random part, at most `backoff_max_s` (so too for Retry-After).
    """

    timeout_s: float = Field(default=300.0, gt=0)
    connect_timeout_s: float = Field(default=10.0, gt=0)
    retries: int = Field(default=5, ge=0)
    backoff_s: float = Field(default=0.5, ge=0)
    backoff_max_s: float = Field(default=30.0, ge=0)
    concurrency: int = Field(default=32, ge=1)


class ProposeSettings(Record):
    """How proposals are sampled. A high temperature: ideas are meant to differ."""

    temperature: float = Field(default=1.0, ge=0)
    max_tokens: int = Field(default=4096, ge=1)


class CodeSettings(Record):
    """How code is sampled. A low temperature: it is meant to be right."""

    temperature: float = Field(default=0.2, ge=0)
    max_tokens: int = Field(default=8192, ge=1)


class LoopSettings(Record):
    """The loop. `ideas_in_flight` 0 means twice the slots, at least 4."""

    ideas_in_flight: int = Field(default=0, ge=0)
    debug_rounds: int = Field(default=4, ge=0)
    machine_retries: int = Field(default=2, ge=0)
    machine_pause_s: float = Field(default=2.0, ge=0)
    similarity: float = Field(default=0.8, gt=0, le=1)
    q: float = Field(default=0.05, gt=0, lt=1)
    feedback_tokens: int = Field(default=2000, ge=100)
    archive: int = Field(default=50, ge=0)
    compact_after: int = Field(default=500, ge=1)


class LocalSettings(Record):
    """The local backend. `slots` 0 means as many as the cores hold."""

    slots: int = Field(default=0, ge=0)


class PathSettings(Record):
    """Where prepared data and its labels are kept: two trees apart. "" means the default."""

    data: str = ""
    private: str = ""


class Settings(Record):
    """Everything that can be set by file, variable or command line."""

    recipe: str = "digits"
    ideas: int = Field(default=20, ge=1, le=10_000_000)
    rounds: int = Field(default=0, ge=0, le=10_000_000)
    model: str = ""
    backend: Literal["auto", "local"] = "auto"
    seed: int = Field(default=0, ge=0, lt=2**32)
    run_dir: str = ""
    allow_unsandboxed: bool = False
    client: ClientSettings = ClientSettings()
    propose: ProposeSettings = ProposeSettings()
    code: CodeSettings = CodeSettings()
    loop: LoopSettings = LoopSettings()
    local: LocalSettings = LocalSettings()
    paths: PathSettings = PathSettings()
