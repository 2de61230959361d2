"""A world with a Slurm: the development cluster, whose answers are written down as it goes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from case_world import Look, World, options
from command_server import Answer, Asked, line
from faults_kit import LIMIT_S, signal_worker, why_no_faults
from recordings import Recording, Said, Section, difference, path_of, read
from slurm_kit import DEVCLUSTER, Cluster, devcluster

from hpcscientist.errors import SchedulerError
from hpcscientist.execution.backends.slurm.commands import Slurm, _environment, failure
from hpcscientist.execution.backends.slurm.watching.queue import accounted, queued

IMPATIENT = {
    "round_min_s": 0.5,
    "round_max_s": 1.0,
    "files_s": 0.2,
    "gather_s": 0.5,
    "visible_s": 2.0,
    "command_s": 20.0,
}
# What is written down of an answer that is long and mostly this cluster's own.
_KEPT = (
    *("SLURM_VERSION", "MaxArraySize", "MaxJobCount", "AccountingStorageType"),
    *("PartitionName=", "Default=", "MaxTime=", "TotalCPUs="),
)
_STATE = DEVCLUSTER / "state"  # the controller's
# What befalls the workers of candidates, from outside.
_SIGNALS = {"kill": "KILL", "grow": "KILL", "stop": "STOP"}
# How each fault is undone.
_FIX = {
    "kill": ("start",),
    "cut": ("restore",),
    "controller": ("controller", "start"),
    "accounting": ("accounting", "start"),
}


class RealWorld(World):
    """See above. `recording` is what was answered."""

    real = True

    def __init__(self, case: str, cluster: Cluster, folder: Path) -> None:
        reason = why_no_faults()
        assert reason is None, reason
        self.case, self.cluster = case, cluster
        self._path = os.environ["PATH"]
        self._fix: list[tuple[str, ...]] = []
        version = subprocess.run(
            ["sbatch", "--version"], capture_output=True, text=True, check=True
        )
        self.recording = Recording(
            [f"Slurm {version.stdout.split()[-1]}", "Recorded from slurm/devcluster."],
            [Section("start")],
        )
        super().__init__(folder, str(cluster.python), folder.with_name(f"{folder.name}-commands"))

    def usual_watch(self) -> dict[str, Any]:
        return dict(IMPATIENT)

    # -- answers -----------------------------------------------------

    def reply(self, asked: Asked) -> Answer:
        answer = self._call(asked)
        if asked.program not in ("squeue", "sacct"):
            self._write_down(asked, answer)
        return answer

    def _call(self, asked: Asked) -> Answer:
        program = str(shutil.which(asked.program, path=self._path))
        done = subprocess.run(
            [program, *asked.arguments],
            input=asked.stdin,
            capture_output=True,
            text=True,
            env={**asked.environment, "PATH": self._path},
            check=False,
            timeout=LIMIT_S,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def _write_down(self, asked: Asked, answer: Answer) -> None:
        command, lines = self.names.hide(line(asked)), ()
        if asked.program == "sbatch":
            script = Path(asked.arguments[-1])
            self.names.add("BATCH", script.parent.name)
            if answer.code == 0:
                self.names.add("JOB", answer.out.split()[-1])
            command = self.names.hide(line(["sbatch", *asked.arguments[:-1], "SCRIPT"]))
            lines = tuple(self.names.hide(one) for one in options(script.read_text()))
        out = answer.out
        if asked.program == "scontrol":
            out = _kept(out)
        said = Said(
            command,
            lines,
            Answer(answer.code, self.names.hide(out), self.names.hide(answer.err)),
        )
        known = self.recording.sections[-1].of(asked.program)
        if not (known and known[-1] == said and (said.answer.code or asked.program != "scancel")):
            self.recording.sections[-1].said.append(said)

    async def look(
        self,
        name: str,
        when: Callable[[Look], bool] = lambda look: True,
        rounds: int = 1,
        of: Sequence[str] = (),
    ) -> None:
        until = asyncio.get_running_loop().time() + LIMIT_S
        while True:
            seen, said = await asyncio.to_thread(self._see, of)
            with contextlib.suppress(KeyError):  # it is not submitted yet
                if when(seen):
                    break
            assert asyncio.get_running_loop().time() < until, (
                f"{self.case}: never {name!r}\n" + "\n".join(one.text() for one in said)
            )
            self._raise_early()
            await asyncio.sleep(0.2)
        self.recording.sections.append(Section(name, said))
        self.heed_places(*(one for one in self.places if one not in self._heeded))
        await self.asked_again(rounds)

    def _raise_early(self) -> None:
        for failed in self.server.failures:
            raise failed

    def _see(self, of: Sequence[str]) -> tuple[Look, list[Said]]:
        said: list[Said] = []
        jobs = [self.job(name) for name in of] or self.jobs
        looker = _Looker(self, said, frozenset(jobs) if of else None)
        queue = accounts = None
        with contextlib.suppress(SchedulerError):
            queue = [row for row in queued(looker) if self._is_ours(row.name, row.job_id)]
        with contextlib.suppress(SchedulerError):
            accounts = accounted(looker, jobs)
        return Look(queue, accounts, self.heeded()), said

    def _is_ours(self, name: str, job: str) -> bool:
        return self.campaign in name or self.names.known(job)

    # -- what happens ------------------------------------------------

    async def begin(self, *trials: str, node: str = "n1") -> None:
        for name in trials:
            await self.reached(f"{name} is submitted", lambda n=name: self.places.get(n))
            times = len(self._began.get(name, ())) + 1
            await self.reached(f"{name} begins", lambda n=name, t=times: self._begun(n) >= t)
            self._began.setdefault(name, []).append(node)
            self.heed_places(name)
        await asyncio.sleep(0.5)

    async def printed(self, *trials: str) -> None:
        for name in trials:
            await self.reached(f"{name} is submitted", lambda n=name: self.places.get(n))
            job, number = self.places[name][-1]
            log = f"*/{job}_{number}_0_log.out"
            await self.reached(f"{name} has a log", lambda n=log: [*self.paths.submission.glob(n)])

    @property
    def _began(self) -> dict[str, list[str]]:
        return self.__dict__.setdefault("began", {})

    def _begun(self, name: str) -> int:
        return len(self.nodes(name))

    def nodes(self, name: str, what: str = "began") -> list[str]:
        """The nodes where a trial's candidate began, in order."""
        path = self.bench.root / what
        lines = path.read_text().splitlines() if path.exists() else []
        return [one.split()[1] for one in lines if one.split()[0] == name]

    async def tell(self, what: str, *trials: str) -> None:
        for name in trials:
            if what in ("finish", "grow"):
                (self.bench.root / f"{what}-{name}").touch()
            if what == "grow":
                await self.reached(f"{name} has grown", lambda n=name: self.nodes(n, "grown"))
            if what in _SIGNALS:
                path = self.paths.trial(name).worker
                await asyncio.to_thread(signal_worker, path, self.node(name), _SIGNALS[what])

    async def fault(self, *words: str) -> None:
        await asyncio.to_thread(self.fault_now, *words)

    def fault_now(self, *words: str) -> None:
        undo = _FIX.get(words[0], ())
        if words[0] == "set":
            undo = ("set", *(f"{one.partition('=')[0]}=" for one in words[1:]))
        elif words[0] in ("kill", "cut"):
            undo = (*undo, words[1])
        if undo and undo != words:
            self._fix.append(undo)
        _devcluster(*words)
        if words == ("controller", "kill") and self._remembered.exists():
            # It writes down what it accepted seconds later: too soon for a slow machine's kill.
            shutil.rmtree(_STATE)
            shutil.move(self._remembered, _STATE)
        self._fix = [one for one in self._fix if one != words]

    async def remember(self) -> None:
        await asyncio.to_thread(shutil.copytree, _STATE, self._remembered)

    @property
    def _remembered(self) -> Path:
        return self.bench.root / "state"

    def node(self, trial: str) -> str:
        return self.nodes(trial)[-1]

    async def user(self, *words: str, fails: bool = False, names: str = "") -> None:
        given = Asked(words[0], words[1:], "", self._environment())
        done = await asyncio.to_thread(self._call, given)
        assert (done.code != 0) == fails, (words, done)
        if names:
            self.names.add(names, done.out.split()[-1])

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": self._path}

    def differs(self) -> str | None:
        """Say where the case's recording is no longer true; None if it is."""
        if not path_of(self.case).exists():
            return f"{self.case} has no recording: python tests/scheduler/record.py {self.case}"
        said = difference(read(self.case), self.recording)
        return said and (
            f"the recording of {self.case} is no longer true: {said}\n"
            f"Record anew: python tests/scheduler/record.py {self.case}"
        )

    def close(self) -> None:
        super().close()
        for words in reversed(self._fix):
            _devcluster(*words)
        for partition in ("batch", "scavenge"):
            update = ["scontrol", "update", f"PartitionName={partition}", "State=UP"]
            subprocess.run(update, check=False)
        rows = subprocess.run(
            ["squeue", "--me", "--noheader", "--format=%F %j"],
            capture_output=True,
            text=True,
            check=False,
        )
        ids = {one.split()[0] for one in rows.stdout.splitlines() if self.campaign in one}
        if ids:
            subprocess.run(["scancel", *ids], check=False)
        shutil.rmtree(self.server.commands, ignore_errors=True)


class _Looker(Slurm):
    """The queries that the backend makes, written down."""

    def __init__(self, world: RealWorld, said: list[Said], jobs: frozenset[str] | None) -> None:
        super().__init__()
        self._world, self._said, self._jobs = world, said, jobs

    def run(self, program: str, *arguments: str, **_: object) -> str:  # type: ignore[override]
        world = self._world
        asked = Asked(program, arguments, "", _environment(world._environment()))
        answer = world._call(asked)
        rows = [row for row in answer.out.splitlines(keepends=True) if self._keeps(program, row)]
        out = "".join(map(_element, rows) if program == "squeue" else rows)
        self._said.append(
            Said(
                world.names.hide(line(asked)),
                (),
                Answer(answer.code, world.names.hide(out), world.names.hide(answer.err)),
            )
        )
        if answer.code:
            raise failure(answer.err or answer.out)
        return answer.out

    def _keeps(self, program: str, row: str) -> bool:
        fields = row.split("\x1f")
        return program != "squeue" or (
            len(fields) > 5
            and self._world._is_ours(fields[5], fields[0])
            and (self._jobs is None or fields[0] in self._jobs)
        )


def _element(row: str) -> str:
    """A running array task has a number of its own, beside its array's: nobody asks for it."""
    fields = row.split("\x1f")
    if fields[1].isdigit():
        fields[7] = "ELEMENT"
    return "\x1f".join(fields)


def _kept(text: str) -> str:
    found = []
    for one in text.splitlines():
        if " = " in one:
            found += [one] if one.split()[0] in _KEPT else []
        else:
            words = [word for word in one.split() if word.startswith(_KEPT)]
            found += [" ".join(words)] if words or not one.strip() else []
    return "".join(f"{one}\n" for one in found)


def _devcluster(*words: str) -> None:
    done = devcluster(*words, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout
