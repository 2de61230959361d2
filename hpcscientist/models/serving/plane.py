"""A model plane as its driver sees it: starts it, watches it, and ends all its processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hpcscientist.errors import Interrupted, ServingError
from hpcscientist.files.atomic import read_tail, write_atomic, write_text
from hpcscientist.files.text import one_line
from hpcscientist.models.serving import secrets
from hpcscientist.models.serving.checking import interpreter
from hpcscientist.models.serving.checking.interpreter import EngineImage, model_folders
from hpcscientist.models.serving.lease import Beat
from hpcscientist.models.serving.nodes import node as agent
from hpcscientist.models.serving.order import Endpoint, Order, ServingPaths, port_block
from hpcscientist.ports import Tell

# Starts a plane's processes on its nodes: as steps of a Slurm allocation, or on this machine.


class Steps(Protocol):
    """Starts a command on a node and appends its output to a log.

    Obligations: the returned process lasts as long as the command runs on its node, and terminating
    it ends the command.
    """

    def start(self, node: str, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a command. Raises OSError."""
        ...


@dataclass(frozen=True, slots=True)
class LocalSteps:
    """Runs every node's command on this machine."""

    def start(self, node: str, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a command here, in its own session, so that Ctrl-C does not reach it.

        The driver ends it.
        """
        return _start(command, log, dict(os.environ))


@dataclass(frozen=True, slots=True)
class SlurmSteps:
    """Steps of a job. `cpus` is what each gets of its node; `gres` are the GPUs, "" for none."""

    job_id: str
    cpus: int
    gres: str = ""

    def start(self, node: str, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a step of one task on a node."""
        return _start([*self.srun(node), *command], log, dict(os.environ))

    def srun(self, node: str) -> list[str]:
        """Return the beginning of the command line.

        Steps overlap: the driver's own batch step runs on the head's node, and trials may run as
        steps too. `--mem=0` means all memory that the job has on a node.
        """
        gres = [f"--gres={self.gres}"] if self.gres else []
        return [
            *("srun", f"--jobid={self.job_id}", "--overlap", "--nodes=1", "--ntasks=1"),
            *(f"--nodelist={node}", f"--cpus-per-task={self.cpus}", "--mem=0", *gres),
            *("--cpu-bind=none", "--kill-on-bad-exit=1", "--unbuffered", "--export=ALL"),
            *("--job-name=model-plane", "--input=none", "--quit-on-interrupt"),
        ]


def _start(command: list[str], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


_POLL_S = 0.5
_SILENCE_S = 30.0  # after which the state of a start is reported again
_BLOCKS = 8  # blocks of ports that are tried
_LOG_TAIL = 4096
END_S = 90.0  # for one node: to notice the stop, end Ray's processes, delete its folder
_RESTARTS = 5  # of one node's Ray
_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Launcher:
    """How a node's processes are started. `python` has vLLM and Ray, in `image` if there is one.

    `python` may be a command of several words.
    """

    steps: Steps
    python: str = sys.executable
    image: EngineImage | None = None

    def interpreter(self, *folders: Path) -> tuple[str, ...]:
        """Return the command that starts the interpreter with access to these folders.

        Raises ServingError.
        """
        prefix = self.image.prefix(folders) if self.image else ()
        return (*prefix, *interpreter.words(self.python))

    def command(self, order: Order, role: str) -> list[str]:
        """Return the command that serves one node. Raises ServingError."""
        models = [path for model in order.models for path in model_folders(Path(model.folder))]
        python = self.interpreter(order.folder, *models)
        return [*python, "-P", "-m", agent.MODULE, str(ServingPaths(order.folder).order), role]


class Plane:
    """One start of a plane, in one allocation. Use it as a context manager, or `close` it."""

    def __init__(self, order: Order, launcher: Launcher, number: int, tell: Tell) -> None:
        """Prepare a start. `number` is the job's or a process id; the ports follow from it."""
        self._order, self._launcher, self._number, self._tell = order, launcher, number, tell
        self._paths = ServingPaths(order.folder)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._restarts: dict[str, int] = {}
        self._due: dict[str, float] = {}
        self._beat: Beat | None = None
        self._closing = threading.Event()
        self._idle, self._ended = threading.Event(), threading.Event()
        self._lost = ""
        self._watcher: threading.Thread | None = None

    def __enter__(self) -> Plane:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def order(self) -> Order:
        """The order that is served, with the ports of the latest attempt."""
        return self._order

    @property
    def lost(self) -> str:
        """Why the plane is gone; "" while it is not."""
        return self._lost

    def start(self, check: Callable[[], None] = lambda: None) -> Endpoint:
        """Start the plane and wait until every model has answered once. Raises ServingError.

        `check` is called during the wait; an exception from it ends the wait and propagates.
        """
        endpoint = self._started(check)
        self._go(self._keep)
        return endpoint

    def _started(self, check: Callable[[], None]) -> Endpoint:
        try:
            self._prepare()
            for attempt in range(_BLOCKS):
                endpoint = self._attempt(attempt, check)
                if endpoint is not None:
                    self._tell(f"models answer: {', '.join(endpoint.models)}")
                    return endpoint
                self._end()
            raise ServingError(
                f"no free ports for the model plane in {_BLOCKS} blocks; see {self._paths.logs}"
            )
        except OSError as error:
            raise ServingError(
                f"the model plane cannot be started: {error.filename or ''} {error.strerror}"
            ) from error

    def begin(self) -> Future[Endpoint]:
        """Start the plane in the background; the future holds what `start` returns or raises."""
        answers: Future[Endpoint] = Future()

        def run() -> None:
            try:
                endpoint = self._started(self._go_on)
            except BaseException as error:  # noqa: BLE001 (whoever waits for the answer has it)
                answers.set_exception(error)
            else:
                answers.set_result(endpoint)
                self._keep()

        self._go(run)
        return answers

    def _go(self, work: Callable[[], None]) -> None:
        """Run `work` in a thread that lasts until the nodes have ended.

        To Linux a thread is the parent of the processes it starts, and nodes end with their parent.
        """

        def run() -> None:
            try:
                work()
            finally:
                self._idle.set()
            self._ended.wait()

        self._watcher = threading.Thread(target=run, daemon=True, name="model plane")
        self._watcher.start()

    def _go_on(self) -> None:
        if self._closing.is_set():
            raise Interrupted("the plane was ended before it answered")

    def close(self) -> None:
        """End all its processes, on every node, even during the start. Idempotent."""
        self._closing.set()
        if self._watcher is not None:
            self._idle.wait()
        self._end()
        self._ended.set()
        endpoint = read_endpoint(self._paths)
        if endpoint is not None and endpoint.nonce == self._order.nonce:  # not a later plane's
            self._paths.endpoint.unlink(missing_ok=True)

    def _prepare(self) -> None:
        self._paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._paths.logs.mkdir(exist_ok=True)
        secrets.make(self._paths.key)
        secrets.make(self._paths.token)

    def _attempt(self, attempt: int, check: Callable[[], None]) -> Endpoint | None:
        """Start with one block of ports; return None if one of them is taken."""
        self._paths.endpoint.unlink(missing_ok=True)
        count = len(self._order.nodes)
        write_text(self._paths.state, f"starting Ray on {count} node{'s' * (count > 1)}\n")
        given = port_block(self._number, attempt)
        # Each attempt has its own nonce: a stop file of the last attempt must not end this one.
        nonce = f"{self._order.nonce.partition('-')[0]}-{attempt}"
        self._order = self._order.model_copy(update={"ports": given, "nonce": nonce})
        write_atomic(self._paths.order, self._order.model_dump_json(indent=2).encode() + b"\n")
        self._beat = Beat(self._paths.lease(nonce))
        self._beat.start()
        for place, name in enumerate(self._order.nodes):
            self._start_node(name, "worker" if place else "head")
        return self._await_endpoint(check)

    def _start_node(self, name: str, role: str) -> None:
        command = self._launcher.command(self._order, role)
        self._running[name] = self._launcher.steps.start(name, command, self._paths.log(name))

    def _await_endpoint(self, check: Callable[[], None]) -> Endpoint | None:
        begun = told_at = time.monotonic()
        until = begun + self._order.ready_s + END_S
        told = ""
        while True:
            check()
            endpoint = read_endpoint(self._paths)
            if endpoint is not None and endpoint.nonce == self._order.nonce:
                return endpoint
            said = read_tail(self._paths.state, _LOG_TAIL).strip()
            now = time.monotonic()
            if said and (said != told or now - told_at > _SILENCE_S):
                self._tell(f"model plane, after {now - begun:.0f} s: {said}")
                told, told_at = said, now
            for name, process in self._running.items():
                status = process.poll()
                if status == agent.PORTS_TAKEN:
                    return None
                if status is not None:
                    raise ServingError(self._why(name, status, said))
            if now > until:
                raise ServingError(
                    f"the model plane was not ready in time ({said or 'nothing was heard of it'});"
                    f" see {self._paths.logs}, or give serving.ready_s more"
                )
            time.sleep(_POLL_S)

    def _why(self, name: str, status: int, said: str) -> str:
        log = self._paths.log(name)
        reason = said.removeprefix("failed: ") if said.startswith("failed: ") else ""
        tail = one_line(read_tail(log, _LOG_TAIL)[-600:], 600)
        return (
            f"the model plane ended on {name} (status {status}): {reason or tail}; see {log} and "
            "the folders beside it"
        )

    def _keep(self) -> None:
        """Watch the nodes: the head's end is the plane's end; Ray on another node is restarted."""
        head, *others = self._order.nodes
        while not self._closing.wait(_POLL_S):
            status = self._running[head].poll()
            if status is not None:
                self._lost = f"the model plane ended on {head} (status {status})"
                with contextlib.suppress(OSError):  # an unreadable log, a closed terminal
                    self._lost = self._why(head, status, "")
                    self._tell(self._lost)
                return
            for name in others:
                if self._running[name].poll() is not None:
                    self._again(name)

    def _again(self, name: str) -> None:
        """Restart a lost node once a pause has passed since its loss was noticed."""
        due = self._due.get(name)
        if due is not None:
            if time.monotonic() >= due:
                del self._due[name]
                with contextlib.suppress(OSError):
                    self._start_node(name, "worker")
            return
        done = self._restarts.get(name, 0)
        if done >= _RESTARTS:
            return
        self._restarts[name] = done + 1
        last = ", for the last time" if done + 1 == _RESTARTS else ""
        with contextlib.suppress(OSError):  # nobody reads the messages any more; the plane goes on
            self._tell(f"model plane: node {name} was lost; starting it again{last}")
        # Do not sleep here: the head must be watched meanwhile.
        self._due[name] = time.monotonic() + _PAUSE_S * 2**done

    def _end(self) -> None:
        left = [process for process in self._running.values() if process.poll() is None]
        if left:
            with contextlib.suppress(OSError):
                self._paths.stop(self._order.nonce).touch()
        for stop in (_nothing, subprocess.Popen.terminate, subprocess.Popen.kill):
            until = time.monotonic() + END_S
            for process in left:
                stop(process)
            for process in left:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.1, until - time.monotonic()))
            left = [process for process in left if process.poll() is None]
        self._running = {}
        if self._beat is not None:
            self._beat.stop()
        with contextlib.suppress(OSError):
            self._paths.stop(self._order.nonce).unlink(missing_ok=True)


def _nothing(process: subprocess.Popen[bytes]) -> None:
    """Do nothing: the stop file alone asks the process to end."""


def read_endpoint(paths: ServingPaths) -> Endpoint | None:
    """Return where the models answer; None while they do not."""
    try:
        return Endpoint.model_validate_json(paths.endpoint.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
