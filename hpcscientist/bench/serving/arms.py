"""The arms of the comparison: vLLM alone, and the same model through a campaign's full stack."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from hpcscientist.bench.serving.alone import AloneEngine, RequestBatch, Resolved, Taken
from hpcscientist.config.settings import RoleSettings, Settings
from hpcscientist.errors import ServingError
from hpcscientist.files.atomic import read_tail
from hpcscientist.files.rundir import RunPaths
from hpcscientist.files.text import one_line
from hpcscientist.launching.serving import models as serving
from hpcscientist.launching.serving import nodes
from hpcscientist.launching.serving.driver_sidecar import DriverSidecar
from hpcscientist.models.open import open_models, role_specs
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.models.serving.nodes import caches, leftovers, offline
from hpcscientist.models.serving.order import ServedModel, ServingPaths
from hpcscientist.ports import Model, Tell
from hpcscientist.records.base import Record
from hpcscientist.records.model_calls import Message, ModelReply, ModelRequest
from hpcscientist.records.site import Site
from hpcscientist.system import processes

R = TypeVar("R", bound=Record)

_MODULE = "hpcscientist.bench.serving.alone"
_LAST_WORDS = 2000
_END_S = 20.0
_POLL_S = 0.05


# Draws requests from a seed: chats of nonsense words, whose replies have known lengths.


_SYSTEM = "You propose experiments."
_SYLLABLES = ("ba", "de", "fi", "go", "lu", "ma", "ne", "ri", "so", "tu")


def draw_requests(
    place: str, count: int, characters: int, tokens: int, sampling: RoleSettings
) -> tuple[ModelRequest, ...]:
    """Return requests of this many characters, answered with this many tokens on average.

    Each reply has exactly its own number, half as many tokens to half as many more: replies of one
    length would end together, and the engine would wait for the next ones. `place` is the seed:
    another one gives chats with other beginnings, which no cache holds.
    """
    rng = random.Random(place)
    return tuple(
        ModelRequest(
            subject=f"{place}-{number}",
            stage="propose",
            messages=(
                Message(role="system", content=f"{rng.getrandbits(32):08x} {_SYSTEM}"),
                Message(role="user", content=_text(rng, characters)),
            ),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            max_tokens=rng.randint((tokens + 1) // 2, tokens + tokens // 2),
            seed=rng.getrandbits(31),
            ignore_eos=True,
        )
        for number in range(count)
    )


def _text(rng: random.Random, characters: int) -> str:
    words: list[str] = []
    length = -1
    while length < characters:
        word = "".join(rng.choices(_SYLLABLES, k=rng.randint(1, 4)))
        words.append(word)
        length += 1 + len(word)
    return " ".join(words)[:characters]


@dataclass(frozen=True, slots=True)
class ServingGround:
    """Folders for planes and engines, the model to serve, and the site."""

    root: Path
    model: Path
    site: Site
    tell: Tell

    @property
    def python(self) -> tuple[str, ...]:
        """The command that starts the serving interpreter. Raises ServingError."""
        return nodes.launcher_of(self.site, "").interpreter()


class Arm(Protocol):
    """Something that answers requests."""

    def run(self, requests: Sequence[ModelRequest], in_flight: int) -> Taken:
        """Have requests answered, this many at once. Raises ServingError."""
        ...


class Whole:
    """A model behind a plane, called as a campaign calls it."""

    def __init__(self, model: Model, served: ServedModel) -> None:
        self._model, self.served = model, served
        self._runner = asyncio.Runner()

    def run(self, requests: Sequence[ModelRequest], in_flight: int) -> Taken:
        """Have requests answered, this many at once. Raises EndpointError, ReplyError."""
        begin = time.perf_counter()
        replies = self._runner.run(self._ask(requests, in_flight))
        return Taken(
            seconds=time.perf_counter() - begin,
            prompt_tokens=sum(reply.prompt_tokens for reply in replies),
            tokens=sum(reply.completion_tokens for reply in replies),
        )

    def close(self) -> None:
        """Close connections."""
        with self._runner:
            self._runner.run(self._model.close())

    async def _ask(self, requests: Sequence[ModelRequest], in_flight: int) -> list[ModelReply]:
        waiting, replies = iter(requests), list[ModelReply]()

        async def ask_on() -> None:
            for request in waiting:
                replies.append(await self._model.complete(request))

        await asyncio.gather(*(ask_on() for _ in range(in_flight)))
        return replies


class Alone:
    """The engine alone, in its own process. `resolved` holds the settings that it resolved."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process, self._log = process, log
        self.resolved: Resolved

    def start(self, served: ServedModel) -> None:
        """Start the engine with a replica's settings; this takes minutes. Raises ServingError."""
        engine = AloneEngine(folder=served.folder, arguments=served.engine)
        self.resolved = self._ask(engine, Resolved)

    def run(self, requests: Sequence[ModelRequest], in_flight: int) -> Taken:
        """Have vLLM answer requests, this many at once. Raises ServingError."""
        return self._ask(RequestBatch(requests=tuple(requests), in_flight=in_flight), Taken)

    def _ask(self, question: Record, kind: type[R]) -> R:
        pipe, answers = self._process.stdin, self._process.stdout
        assert pipe is not None
        assert answers is not None
        with contextlib.suppress(BrokenPipeError):
            pipe.write(question.model_dump_json() + "\n")
            pipe.flush()
        line = answers.readline()
        if not line:
            said = one_line(read_tail(self._log, _LAST_WORDS), _LAST_WORDS)
            raise ServingError(f"vLLM alone ended with status {self._process.wait()}: {said}")
        return kind.model_validate_json(line)


@contextmanager
def alone(ground: ServingGround, served: ServedModel) -> Iterator[Alone]:
    """Run vLLM alone, with a replica's environment and settings. Raises ServingError."""
    folder = ground.root / f"alone-{secrets.token_hex(2)}"
    folder.mkdir()
    environment = offline.environment(os.environ, ServingPaths(folder))
    environment |= served.variables | caches.variables(folder)
    log = folder / "log"
    # vLLM leaves its sockets behind; their paths have a length limit, so the folder's is short.
    with tempfile.TemporaryDirectory(prefix="hpcsci-", ignore_cleanup_errors=True) as sockets:
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [*ground.python, "-P", "-m", _MODULE],
                env=environment | {"TMPDIR": sockets},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                text=True,
            )
        try:
            ground.tell("vLLM alone: starting")
            engine = Alone(process, log)
            engine.start(served)
            ground.tell(f"vLLM alone: {engine.resolved.model_dump_json()}")
            yield engine
        finally:
            _end(process)


@contextmanager
def whole(ground: ServingGround, settings: Settings) -> Iterator[Whole]:
    """Run the model through plane, key, gate, client and record. Raises ServingError."""
    root = ground.root / f"plane-{secrets.token_hex(2)}"
    spec = f"vllm:{ground.model}"
    request = serving.ServingRequest(
        paths=ServingPaths(root / "serving"),
        owner=f"bench-{secrets.token_hex(4)}",
        folders=(ground.model,),
        settings=settings.serving,
        site=ground.site,
    )
    launcher = nodes.launcher_of(ground.site, "")
    with serving.drafted(request, nodes.here(), launcher, ground.tell) as (plane, machine):
        beside = DriverSidecar(
            plane=plane,
            answers=plane.begin(),
            machine=machine,
            settings=settings,
            paths=request.paths,
            folders={spec: ground.model},
            since=time.time(),
        )
        roles = open_models(role_specs(Settings(), spec), None, settings, beside.served())
        model = RecordedModel(roles, RunPaths(root / "run"), lambda *_: None)
        arm = Whole(model, plane.order.models[0])
        try:
            yield arm
        finally:
            arm.close()


def _end(process: subprocess.Popen[str]) -> None:
    """Wait for a process to exit by itself, or end it with all of its descendants."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)
        return
    family = processes.halt([process.pid])
    left = leftovers.shared_memory(family)
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    until = time.monotonic() + _END_S
    while any(map(processes.is_alive, family)) and time.monotonic() < until:
        time.sleep(_POLL_S)
    leftovers.remove(left)
