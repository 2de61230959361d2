"""`hpcsci bench serving`: turns its options into figures."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from hpcscientist.bench.figure import Figure
from hpcscientist.bench.serving import first
from hpcscientist.bench.serving.arms import Arm, ServingGround, Whole, alone, draw_requests, whole
from hpcscientist.bench.serving.model import HIDDEN, LAYERS, WORDS
from hpcscientist.config.settings import Settings
from hpcscientist.errors import ServingError, UsageError
from hpcscientist.files.text import one_line
from hpcscientist.launching.serving import models as serving
from hpcscientist.launching.serving import nodes
from hpcscientist.models.open import parse_spec
from hpcscientist.models.serving.checking import interpreter
from hpcscientist.ports import Tell
from hpcscientist.records.site import Site

# Measures the figures of `hpcsci bench serving`.
#
# The engine's settings are those that a campaign's plane gives its replicas; vLLM alone gets
# the same. As many requests as are given are in flight all the time: where one is answered, the
# next is sent, as in a campaign. Every prompt is new to all caches, both sides write replies of
# the same lengths, and both have answered as many requests at once before the clock starts.


# Options of `hpcsci bench serving`.


IN_FLIGHT = (1, 8, 64)
PARTS = ("throughput", "start", "replicas")
# The options for a GPU: about three minutes, with a billion weights.
ON_GPU: dict[str, Any] = {
    "parts": PARTS[:1],
    "in_flight": (*IN_FLIGHT, 256),
    "tokens": 128,
    "hidden": 2048,
    "layers": 20,
    "gpu": True,
}


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """What to measure, and where.

    `model` is a folder of weights, or None for random weights with `hidden` numbers in each of
    `layers`. A prompt has `characters`, a reply `tokens`; `in_flight` lists the numbers of
    simultaneous requests. `gpu`: the machine must have a GPU.
    """

    folder: Path
    site: Site
    settings: Settings
    model: Path | None = None
    parts: tuple[str, ...] = PARTS
    in_flight: tuple[int, ...] = IN_FLIGHT
    characters: int = 128
    tokens: int = 64
    runs: int = 3
    hidden: int = HIDDEN
    layers: int = LAYERS
    gpu: bool = False


# The processor cores available to this process and its children.


def own_cores() -> list[int]:
    """Return the cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


@contextmanager
def only_cores(cores: Sequence[int]) -> Iterator[None]:
    """Restrict this thread, and what it starts meanwhile, to some of its cores."""
    before = own_cores()
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cores_used(seconds: float) -> float:
    """Return the number of cores that all descendants use, measured for this many seconds."""
    begin, before = time.perf_counter(), _spent()
    time.sleep(seconds)
    after, elapsed = _spent(), time.perf_counter() - begin
    return sum(after[pid] - before.get(pid, 0.0) for pid in after) / elapsed


def _spent() -> dict[int, float]:
    found = {}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            found[process.pid] = times.user + times.system
    return found


TARGET = 0.90  # relative to vLLM alone, with `AT` requests in flight
AT = (64, 256)
START = 1.3  # relative to vLLM alone

_TURNS = 4  # requests for each one in flight
_WARM = 8  # tokens of a warm-up reply
_WARM_CHARACTERS = 32
_REST_S = 10.0


class ServingMeasurement:
    """The measurement, part by part."""

    def __init__(self, options: ServingOptions, ground: ServingGround) -> None:
        self._options, self._ground = options, ground
        self._machine = nodes.machine_of(ground.site, nodes.here(), is_slurm=False)
        self._gpus = self._machine.gpus
        client = options.settings.client
        most = max(*options.in_flight, client.concurrency)
        wide = client.model_copy(update={"concurrency": most})
        self._settings = options.settings.model_copy(update={"client": wide})

    @property
    def machine(self) -> str:
        """A description of the machine."""
        engines = f"{self._gpus} GPUs" if self._gpus else "no GPU: engines compute on the cores"
        return f"{len(own_cores())} cores, {engines}"

    def check(self) -> None:
        """Check that the requested replicas fit on the machine. Raises ServingError, UsageError."""
        if self._options.gpu and not self._gpus:
            raise UsageError("--gpu: this machine has no GPU that can be used; leave --gpu out")
        most = 2 if "replicas" in self._options.parts else 1
        wanted = self._settings.serving.model_copy(update={"replicas": most})
        try:
            serving.lay_out((self._ground.model,), self._machine, wanted)
            if not self._gpus and len(own_cores()) < most:
                raise ServingError("there is one core")
        except ServingError as error:
            if most == 1:
                raise
            raise UsageError(
                f"--part replicas: two cannot be measured here ({error}); give the other parts"
            ) from error

    def part(self, name: str) -> list[Figure]:
        """Measure one part."""
        if name == "throughput":
            return self._throughput()
        return self._start() if name == "start" else self._replicas()

    def _throughput(self) -> list[Figure]:
        found: dict[str, dict[int, list[float]]] = {"whole": {}, "alone": {}}
        first_token: dict[str, float] = {}
        one = draw_requests("alone", 1, 1, 1, self._settings.ideation)
        with ExitStack() as both:
            begun = time.perf_counter()
            ours = both.enter_context(self._plane(1))
            first_token["whole"] = time.perf_counter() - begun
            resting = cores_used(_REST_S)  # cores that vLLM alone lacks if it runs beside
            if self._gpus:  # an engine fills a GPU's memory, so measure in sequence
                found["whole"] = self._rates({"whole": ours})["whole"]
                both.close()
                arms: dict[str, Arm] = {}
            else:
                arms = {"whole": ours}
            begun = time.perf_counter()
            arms["alone"] = both.enter_context(alone(self._ground, ours.served))
            arms["alone"].run(one, 1)
            first_token["alone"] = time.perf_counter() - begun
            found |= self._rates(arms)
        own, other = first_token["whole"], first_token["alone"]
        return [
            *(
                self._rate(
                    f"tokens per second, {count} in flight",
                    *(found["whole"][count], "vLLM alone", found["alone"][count]),
                    TARGET if count in AT else None,
                )
                for count in self._options.in_flight
            ),
            Figure(
                *("first token", own, "s", f"vLLM alone: {other:.4g} s", own / other, START, 0.0),
                runs=1,
            ),
            Figure("a plane at rest", resting, "cores", None, None, None, 0.0, 1),
        ]

    def _start(self) -> list[Figure]:
        """Measure a cold start, then a warm one, which reuses what was compiled if that is kept."""
        ground, taken = self._ground, {}
        for name in ("cold", "warm"):
            if name == "cold":
                ground.tell("putting weights and packages out of memory")
                both = {*first.packages(ground.python), *first.packages((sys.executable,))}
                first.evict([ground.model, *both])
            taken[name] = first.seconds(ground, self._of(1))
            ground.tell(f"the first token came after {taken[name]:.1f} s")
        begun, again = taken["cold"], taken["warm"]
        words = f"cold: {begun:.4g} s"
        return [
            Figure("first token, cold", begun, "s", None, None, None, 0.0, 1),
            Figure("first token, warm", again, "s", words, again / begun, None, 0.0, 1),
        ]

    def _replicas(self) -> list[Figure]:
        """Measure one replica and two; without GPUs, one replica gets half of the cores and two get
        all.
        """
        cores, count = own_cores(), max(self._options.in_flight)
        with only_cores(cores if self._gpus else cores[: len(cores) // 2]), self._plane(1) as ours:
            one = self._rates({"one replica": ours}, (count,))["one replica"][count]
        with self._plane(2) as ours:
            two = self._rates({"two replicas": ours}, (count,))["two replicas"][count]
        share = "" if self._gpus else " on half of the cores"
        return [
            self._rate(
                f"tokens per second of two replicas, {count} in flight",
                *(two, f"one{share}", one, None),
            )
        ]

    @contextmanager
    def _plane(self, replicas: int) -> Iterator[Whole]:
        """Run a plane of this many replicas, and yield it after its first token."""
        settings = self._of(replicas)
        with whole(self._ground, settings) as ours:
            ours.run(draw_requests("first", 1, 1, 1, settings.ideation), 1)
            yield ours

    def _of(self, replicas: int) -> Settings:
        own = self._settings.serving.model_copy(update={"replicas": replicas})
        return self._settings.model_copy(update={"serving": own})

    def _rates(
        self, arms: dict[str, Arm], in_flight: Sequence[int] = ()
    ) -> dict[str, dict[int, list[float]]]:
        """Return tokens per second of each arm, by requests in flight; the arms take turns."""
        found: dict[str, dict[int, list[float]]] = {name: {} for name in arms}
        counts = in_flight or self._options.in_flight
        for number in range(-1, self._options.runs):  # the first one only warms up
            order = list(arms) if number % 2 else list(reversed(arms))
            for count in counts:
                for name in order:
                    rate = self._batch(arms[name], name, number, count)
                    if number >= 0:
                        found[name].setdefault(count, []).append(rate)
        return found

    def _batch(self, arm: Arm, name: str, number: int, count: int) -> float:
        options = self._options
        characters, tokens, turns = options.characters, options.tokens, _TURNS
        if number < 0:
            characters, tokens, turns = min(_WARM_CHARACTERS, characters), min(_WARM, tokens), 1
        place = f"run{number}-{count}"
        requests = draw_requests(place, turns * count, characters, tokens, self._settings.ideation)
        taken = arm.run(requests, count)
        wanted = sum(request.max_tokens for request in requests)
        if taken.tokens != wanted:
            raise ServingError(
                f"{name}: {taken.tokens} tokens came, {wanted} were asked for: the "
                "context is too short; give fewer --tokens, or a smaller --prompt"
            )
        if number >= 0:
            rate = taken.tokens / taken.seconds
            self._ground.tell(
                f"{name}, {count} in flight: {rate:.4g} tokens/s "
                f"({taken.prompt_tokens} tokens read, {taken.tokens} written)"
            )
        return taken.tokens / taken.seconds

    def _rate(
        self, name: str, values: list[float], words: str, others: list[float], target: float | None
    ) -> Figure:
        value, other = statistics.median(values), statistics.median(others)
        return Figure(
            name=name,
            value=value,
            unit="tokens/s",
            compared_with=f"{words}: {other:.4g} tokens/s",
            ratio=value / other,
            target=target,
            spread=max(values) - min(values),
            runs=len(values),
            at_least=target is not None,
        )


__all__ = ["IN_FLIGHT", "ON_GPU", "PARTS", "ServingOptions", "figures", "folder_of"]

_MODEL = "hpcscientist.bench.serving.model"


def folder_of(spec: str, below: Path) -> Path:
    """Return the folder of a SPEC's weights. Raises UsageError if the model is not served here."""
    if parse_spec(spec).kind != "vllm":
        raise UsageError(f"--model {spec}: only open weights are measured here: give vllm:PATH")
    return serving.folder_of(spec, below)


def figures(options: ServingOptions, tell: Tell = lambda text: None) -> list[Figure]:
    """Measure, and leave neither processes nor files behind.

    Takes about ten minutes on two cores, and three on a GPU. Raises UsageError and ServingError for
    what cannot be measured here, OSError if `folder` cannot be written.
    """
    if options.site.serving.image:
        raise UsageError(
            "serving.image: variables do not reach an engine in an image, so that vLLM alone and a "
            "replica could differ; give --site a profile with python in place of image in [serving]"
        )
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="hpcsci-bench-", dir=options.folder) as place:
        measured = ServingMeasurement(options, _ground(options, Path(place), tell))
        measured.check()
        tell(measured.machine)
        try:
            for part in dict.fromkeys(options.parts):
                found += measured.part(part)
        except ServingError as error:
            raise _with_logs(error, Path(place), options.folder) from error
    return found


def _with_logs(error: ServingError, place: Path, folder: Path) -> ServingError:
    """Keep the logs that an error mentions, because their folder is deleted."""
    kept = Path(tempfile.mkdtemp(prefix="bench-serving-logs-", dir=folder))
    for log in [*place.glob("*/serving/logs/*"), *place.glob("alone-*/log")]:
        if log.is_file():
            shutil.copyfile(log, kept / f"{log.relative_to(place).parts[0]}-{log.name}")
    return ServingError(f"{error}; the logs are kept in {kept}")


def _size(options: ServingOptions) -> tuple[str, ...]:
    given = {"hidden": options.hidden, "layers": options.layers, "words": WORDS}
    return tuple(f"--{name}={number}" for name, number in given.items())


def _ground(options: ServingOptions, root: Path, tell: Tell) -> ServingGround:
    ground = ServingGround(root, options.model or root / "random", options.site, tell)
    if options.model is None:
        tell("making a model of random weights")
        done = subprocess.run(
            [*ground.python, "-P", "-m", _MODEL, str(ground.model), *_size(options)],
            env={**os.environ, "TMPDIR": str(root)},  # PyTorch leaves a folder in it
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            said = one_line(done.stderr.strip().rpartition("\n")[2]) or "no word"
            raise ServingError(
                f"{shlex.join(ground.python)} made no model: {said}; {interpreter.INSTALL}"
            )
    engine = interpreter.ask(ground.model, ground.python)
    problem = interpreter.reason(ground.model, ground.python, engine)
    if problem:
        raise ServingError(problem)
    return ground
