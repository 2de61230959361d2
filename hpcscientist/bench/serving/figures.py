"""`hpcsci bench serving`: turns its options into figures."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from hpcscientist.bench.figure import Figure
from hpcscientist.bench.serving.arms import Ground
from hpcscientist.bench.serving.measured import Measured
from hpcscientist.bench.serving.model import WORDS
from hpcscientist.bench.serving.options import IN_FLIGHT, ON_GPU, PARTS, Options
from hpcscientist.errors import ServingError, UsageError
from hpcscientist.files.text import one_line
from hpcscientist.launching.serving import models as serving
from hpcscientist.models.open import parse_spec
from hpcscientist.models.serving.checking import interpreter
from hpcscientist.ports import Tell

__all__ = ["IN_FLIGHT", "ON_GPU", "PARTS", "Options", "figures", "folder_of"]

_MODEL = "hpcscientist.bench.serving.model"


def folder_of(spec: str, below: Path) -> Path:
    """Return the folder of a SPEC's weights. Raises UsageError if the model is not served here."""
    if parse_spec(spec).kind != "vllm":
        raise UsageError(f"--model {spec}: only open weights are measured here: give vllm:PATH")
    return serving.folder_of(spec, below)


def figures(options: Options, tell: Tell = lambda text: None) -> list[Figure]:
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
        measured = Measured(options, _ground(options, Path(place), tell))
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


def _size(options: Options) -> tuple[str, ...]:
    given = {"hidden": options.hidden, "layers": options.layers, "words": WORDS}
    return tuple(f"--{name}={number}" for name, number in given.items())


def _ground(options: Options, root: Path, tell: Tell) -> Ground:
    ground = Ground(root, options.model or root / "random", options.site, tell)
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
