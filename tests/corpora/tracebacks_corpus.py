"""Logs of failed trials as programs, loggers and launchers print them.

The logs in `tracebacks/` were printed by the programs below, really run at a path of 69 characters,
as a trial's own is; frames of libraries are left out of the longest. Labels that launchers write
before each line are added here, as the sources and public logs of those launchers show them.
"""

from __future__ import annotations

import itertools
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from corpus_kit import FOLDER, Case

from hpcscientist.authoring.tracebacks.log import frames, last_error

CODE = "/scratch/lab/runs/d-7/trials/idea-0007-a2-search-3/code"

Place = tuple[str, int, str]

# A program that fails while it handles an error, in a module of a package.
ROWS = {
    "experiment.py": """\
from model.layers import Scale


def evaluate(model, rows):
    total = 0.0
    for row in rows:
        total += model.forward(row)
    return total / len(rows)


def main():
    model = Scale({"mean": 0.5, "deviation": 0.0})
    print("epoch 1 loss 0.31", flush=True)
    return evaluate(model, [1, 2])


if __name__ == "__main__":
    main()
""",
    "model/__init__.py": "",
    "model/layers.py": """\
class Scale:
    def __init__(self, table):
        self.table = table

    def forward(self, value):
        try:
            return (value - self.table["mean"]) / self.table["deviation"] + self.table["offset"]
        except ZeroDivisionError as error:
            raise ValueError(f"row {value} cannot be scaled") from error
""",
}
RAISED: list[Place] = [
    ("experiment.py", 18, "<module>"),
    ("experiment.py", 14, "main"),
    ("experiment.py", 7, "evaluate"),
    ("model/layers.py", 9, "forward"),
]

# The same program, with tests in place of its last lines.
TESTED = {
    **ROWS,
    "experiment.py": ROWS["experiment.py"].partition("if __name__")[0]
    + """\
def test_main():
    assert main() < 1


def test_rows():
    rows = [1, 2]
    assert sum(rows) == len(rows)
""",
    "bad.py": "import nothere\n",
}

# Programs in one file each, which fail in ways of their own.
PROGRAMS = {
    "divides": """\
def work(n):
    return 1 / n


def main():
    work(0)


main()
""",
    "imports-bad-syntax": """\
import bad
""",
    "numba": """\
import numba


@numba.njit
def total(rows):
    s = 0
    for r in rows:
        s += r["weight"]
    return s


total([1.0, 2.0])
""",
    "joblib": """\
from joblib import Parallel, delayed


def work(n):
    return 1 / n


if __name__ == "__main__":
    Parallel(n_jobs=2)(delayed(work)(n) for n in (1, 0))
""",
    "dask": """\
from dask.distributed import Client


def divide(n):
    return 1 / n


def main():
    with Client(processes=False, dashboard_address=None) as client:
        client.gather(client.map(divide, [1, 0]))


if __name__ == "__main__":
    main()
""",
    "jax": """\
import jax
import jax.numpy as jnp


@jax.jit
def loss(w, x):
    return jnp.dot(w, x)


def step(w):
    return jax.grad(lambda v: loss(v, jnp.ones(3)))(w)


step(jnp.ones(4))
""",
    "tensorflow": """\
import tensorflow as tf


def scale(x):
    return tf.matmul(x, tf.ones((5, 2)))


@tf.function
def train_step(x):
    return scale(x)


train_step(tf.ones((2, 3)))
""",
    "keras": """\
import keras
import numpy as np


class Head(keras.layers.Layer):
    def call(self, x):
        return keras.ops.matmul(x, np.ones((5, 2), "float32"))


model = keras.Sequential([keras.layers.Dense(4), Head()])
model.compile(loss="mse")
model.fit(np.ones((8, 3), "float32"), np.ones((8, 2), "float32"), verbose=0)
""",
    "lightning": """\
import sys

import lightning
import torch


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    def training_step(self, batch, index):
        return self.layer(batch[0]).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    rows = torch.utils.data.TensorDataset(torch.ones(4, 5))
    options = {} if sys.argv[1] == "1" else {"strategy": "ddp_spawn"}
    lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, devices=int(sys.argv[1]), **options
    ).fit(Net(), torch.utils.data.DataLoader(rows))
""",
    "ray": """\
import time
import traceback

import ray


def divide(n):
    return 1 / n


@ray.remote
class Trainer:
    def step(self, n):
        try:
            divide(n)
        except ZeroDivisionError:
            traceback.print_exc()


@ray.remote
def work(n):
    return divide(n)


def main():
    ray.init(num_cpus=2, include_dashboard=False)
    ray.get(Trainer.remote().step.remote(0))
    time.sleep(1)
    ray.get([work.remote(n) for n in (1, 0)])


main()
""",
    "torchrun": """\
import os
import time


def shard(rows):
    return rows[int(os.environ["RANK"])]


time.sleep(int(os.environ["RANK"]))
print(shard([1]))
time.sleep(3)
""",
    "torchrun-record": """\
import os
import time

from torch.distributed.elastic.multiprocessing.errors import record


def shard(rows):
    return rows[int(os.environ["RANK"])]


@record
def main():
    print(shard([1]))
    time.sleep(3)


main()
""",
    "sacred": """\
from sacred import Experiment

ex = Experiment("digits", save_git_info=False)
ex.add_config(rate=0)


@ex.capture
def train(rate):
    return 1 / rate


@ex.main
def run():
    train()


ex.run_commandline()
""",
    "hydra": """\
import hydra


def train(rate):
    return 1 / rate


@hydra.main(version_base=None)
def main(config):
    train(0)


main()
""",
    "group": """\
import asyncio


async def load(n):
    if n == 2:
        raise ValueError(f"shard {n} is empty")
    raise OSError(5, "Input/output error")


async def main():
    async with asyncio.TaskGroup() as group:
        for n in (2, 3):
            group.create_task(load(n))


asyncio.run(main())
""",
    "faulthandler": """\
import ctypes
import faulthandler
import threading
import time


def waits():
    time.sleep(5)


def crash():
    ctypes.string_at(0)


faulthandler.enable()
threading.Thread(target=waits, daemon=True).start()
crash()
""",
    "notes": """\
def ratio(rows):
    return sum(rows) / len(rows) + sum(
        rows[1]
        for row in rows
    )


def main():
    try:
        ratio({})
    except ZeroDivisionError as error:
        error.add_note("rows of fold 3")
        raise RuntimeError("fold 3 failed") from error


main()
""",
    "loguru": """\
from loguru import logger


def ratio(a, b):
    return a / b


@logger.catch
def main(rows):
    return [ratio(row, 0) for row in rows]


main([1])
""",
    "rich-handler": """\
import logging

from rich.logging import RichHandler

logging.basicConfig(format="%(message)s", handlers=[RichHandler(rich_tracebacks=True)])


def divide(x):
    return 1 / x


try:
    divide(0)
except ZeroDivisionError:
    logging.getLogger("train").exception("training failed")
""",
    "rich-group": """\
from rich.traceback import install

install()


def divide(values):
    return [{"a_rather_long_key": value, "another_rather_long_key": value / 0} for value in values]


def main():
    errors = []
    for n in (1, 2):
        try:
            divide([n])
        except ZeroDivisionError as error:
            error.add_note(f"at row {n}")
            errors.append(error)
    raise ExceptionGroup("two rows failed", errors)


main()
""",
    "typer": """\
import typer


def divide(x):
    return 1 / x


def main(n: int = 0):
    divide(n)


typer.run(main)
""",
    "logging-lines": """\
import logging
import traceback

logging.basicConfig(format="%(asctime)s %(levelname)-8s %(name)s: %(message)s")


def divide(x):
    return 1 / x


try:
    divide(0)
except ZeroDivisionError:
    for line in traceback.format_exc().splitlines():
        logging.getLogger("train").error(line)
""",
    "logging-indented": """\
import logging
import textwrap
import traceback

logging.basicConfig(format="%(asctime)s %(levelname)-8s %(name)s: %(message)s")


def divide(x):
    return 1 / x


try:
    divide(0)
except ZeroDivisionError:
    logging.error("failed:\\n%s", textwrap.indent(traceback.format_exc(), "    "))
""",
    "cython": """\
import pyximport

pyximport.install(language_level=3)
import fast

fast.total([1, "a"])
""",
    "multiprocessing": """\
import multiprocessing


def work(n):
    return 1 / n


if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        pool.map(work, [1, 0])
""",
}
BESIDE = {
    "bad.py": "def f(x):\n    return (x\n",
    "fast.pyx": """\
def total(rows):
    cdef double s = 0
    for r in rows:
        s += weigh(r)
    return s


cdef double weigh(r) except? -1:
    return r / 2
""",
}

_BOTH = [*RAISED, ("model/layers.py", 7, "forward")]
_ROWS_ERROR = "ValueError: row 1 cannot be scaled"
_IN_TEST = [("experiment.py", 18, "test_main"), *_BOTH[1:]]
_BAD = ("bad.py", 2, "<module>")
_ONE = "experiment.py"
_ZERO = "ZeroDivisionError: division by zero"
_SHAPES = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x5 and 3x2)"
_UNCLOSED = "SyntaxError: '(' was never closed"

# The program `ROWS`: which log, its frames, its error, and what printed it.
OF_ROWS: list[tuple[str, list[Place], str, str]] = [
    ("python-3.8", _BOTH, _ROWS_ERROR, "Python 3.8.18"),
    ("python-3.11", _BOTH, _ROWS_ERROR, "Python 3.11.7"),
    ("python-3.13", _BOTH, _ROWS_ERROR, "Python 3.13.0"),
    ("python-3.13-colours", _BOTH, _ROWS_ERROR, "Python 3.13.0, FORCE_COLOR=1"),
    ("rich", _BOTH, _ROWS_ERROR, "rich 15.0.0, 80 columns"),
    ("rich-120-columns", _BOTH, _ROWS_ERROR, "rich 15.0.0, 120 columns"),
    ("rich-locals", _BOTH, _ROWS_ERROR, "rich 15.0.0, show_locals=True"),
    ("rich-ascii", _BOTH, _ROWS_ERROR, "rich 15.0.0, PYTHONIOENCODING=ascii:backslashreplace"),
    ("rich-colours", _BOTH, _ROWS_ERROR, "rich 15.0.0, FORCE_COLOR=1"),
    ("better-exceptions", _BOTH, _ROWS_ERROR, "better-exceptions 0.3.3"),
    ("pretty-errors", RAISED, _ROWS_ERROR, "pretty-errors 1.2.25"),
    ("stackprinter", _BOTH, _ROWS_ERROR, "stackprinter 0.2.13"),
    ("with-variables", RAISED, f"builtins.{_ROWS_ERROR}", "traceback-with-variables"),
    ("ipython", _BOTH, _ROWS_ERROR, "IPython 9.18.1, ultratb Context"),
    ("ipython-verbose", _BOTH, _ROWS_ERROR, "IPython 9.18.1, ultratb Verbose"),
    ("ipython-plain", _BOTH, _ROWS_ERROR, "IPython 9.18.1, ultratb Plain"),
    ("ipython-colours", _BOTH, _ROWS_ERROR, "IPython 9.18.1, `ipython experiment.py`"),
    ("ipython-7", _BOTH, _ROWS_ERROR, "IPython 7, ultratb Context"),
    ("mpich", _BOTH, _ROWS_ERROR, "MPICH 5.0.2, mpiexec -l"),
    ("mpich-rich", _BOTH, _ROWS_ERROR, "MPICH 5.0.2, mpiexec -l, and rich"),
    # Hydra breaks lines where a program's writes end: the next rank's label is part of the text.
    ("mpich-ipython", _BOTH, f"{_ROWS_ERROR}[0]", "MPICH 5.0.2, mpiexec -l, and IPython 9.18.1"),
    ("prte-tag", _BOTH, _ROWS_ERROR, "Open MPI 5, --output tag"),
    ("prte-tag-detailed", _BOTH, _ROWS_ERROR, "Open MPI 5, --output tag-detailed"),
    ("prte-tag-timestamp", _BOTH, _ROWS_ERROR, "Open MPI 5, --output tag,timestamp"),
]

# The program `TESTED`, run by pytest 9.
OF_TESTS: list[tuple[str, list[Place], str]] = [
    ("pytest", _IN_TEST, _ROWS_ERROR),
    ("pytest-long", _IN_TEST, _ROWS_ERROR),
    ("pytest-short", _IN_TEST, _ROWS_ERROR),
    ("pytest-line", [("model/layers.py", 9, "forward")], _ROWS_ERROR),
    ("pytest-assert", [("experiment.py", 23, "test_rows")], "AssertionError: assert 3 == 2"),
    (
        "pytest-collecting",
        [("bad.py", 1, "<module>")],
        "ModuleNotFoundError: No module named 'nothere'",
    ),
]

# Programs of one file: the program, which log, its frames, its error, and what printed it.
OF_PROGRAMS: list[tuple[str, str, list[Place], str, str]] = [
    (
        "imports-bad-syntax",
        "syntax-3.13",
        [(_ONE, 1, "<module>"), _BAD],
        _UNCLOSED,
        "Python 3.13.0, FORCE_COLOR=1",
    ),
    (
        "imports-bad-syntax",
        "syntax-rich",
        [(_ONE, 1, "<module>"), _BAD],
        _UNCLOSED,
        "rich 15.0.0",
    ),
    (
        "imports-bad-syntax",
        "syntax-ipython",
        [(_ONE, 1, "<module>"), _BAD],
        f"{_UNCLOSED} (bad.py, line 2)",
        "IPython 9.18.1",
    ),
    (
        "imports-bad-syntax",
        "syntax-ipython-plain",
        [(_ONE, 1, "<module>"), _BAD],
        _UNCLOSED,
        "IPython 9.18.1",
    ),
    (
        "imports-bad-syntax",
        "syntax-stackprinter",
        [(_ONE, 1, "<module>"), _BAD],
        f"{_UNCLOSED} (bad.py, line 2)",
        "stackprinter 0.2.13",
    ),
    (
        "imports-bad-syntax",
        "syntax-pretty-errors",
        [_BAD],
        _UNCLOSED,
        "pretty-errors 1.2.25",
    ),
    (
        "notes",
        "notes-3.13",
        [
            (_ONE, 16, "<module>"),
            (_ONE, 13, "main"),
            (_ONE, 10, "main"),
            (_ONE, 2, "ratio"),
        ],
        "RuntimeError: fold 3 failed",
        "Python 3.13.0",
    ),
    (
        "numba",
        "numba",
        [(_ONE, 8, "total"), (_ONE, 12, "<module>")],
        "numba.core.errors.TypingError: Failed in nopython mode pipeline (step: nopython frontend)",
        "numba 0.68.1",
    ),
    ("joblib", "joblib", [(_ONE, 9, "<module>"), (_ONE, 5, "work")], _ZERO, "joblib 1.6.0"),
    (
        "dask",
        "dask",
        [(_ONE, 14, "<module>"), (_ONE, 10, "main"), (_ONE, 5, "divide")],
        _ZERO,
        "distributed 2026.8.0",
    ),
    (
        "jax",
        "jax",
        [(_ONE, 14, "<module>"), (_ONE, 11, "step"), (_ONE, 11, "<lambda>"), (_ONE, 7, "loss")],
        "TypeError: dot_general requires contracting dimensions to have the same shape, got (4,)"
        " and (3,).",
        "jax 0.10.2",
    ),
    (
        "tensorflow",
        "tensorflow",
        [(_ONE, 13, "<module>"), (_ONE, 10, "train_step"), (_ONE, 5, "scale")],
        "ValueError: Dimensions must be equal, but are 3 and 5 for '{{node MatMul}} = MatMul["
        "T=DT_FLOAT, grad_a=false, grad_b=false, transpose_a=false, transpose_b=false](x, ones)'"
        " with input shapes: [2,3], [5,2].",
        "tensorflow 2.21.0",
    ),
    (
        "keras",
        "keras",
        [(_ONE, 12, "<module>"), (_ONE, 7, "call")],
        "ValueError: Exception encountered when calling Head.call().",
        "keras 3 with tensorflow 2.21.0",
    ),
    (
        "lightning",
        "lightning",
        [(_ONE, 24, "<module>"), (_ONE, 13, "training_step")],
        _SHAPES,
        "lightning 2, one process",
    ),
    (
        "lightning",
        "lightning-ddp",
        [(_ONE, 13, "training_step"), (_ONE, 24, "<module>")],
        _SHAPES,
        "lightning 2, ddp_spawn",
    ),
    (
        "ray",
        "ray",
        [
            (_ONE, 32, "<module>"),
            (_ONE, 29, "main"),
            (_ONE, 22, "work"),
            (_ONE, 8, "divide"),
            (_ONE, 15, "step"),
        ],
        _ZERO,
        "ray 2: an actor's caught error, then a task's",
    ),
    (
        "torchrun",
        "torchrun",
        [(_ONE, 10, "<module>"), (_ONE, 6, "shard")],
        "IndexError: list index out of range",
        "torchrun",
    ),
    (
        "torchrun",
        "torchrun-tee",
        [(_ONE, 10, "<module>"), (_ONE, 6, "shard")],
        "IndexError: list index out of range",
        "torchrun --tee 3 --role trainer",
    ),
    (
        "torchrun-record",
        "torchrun-record",
        [(_ONE, 13, "main"), (_ONE, 8, "shard"), (_ONE, 17, "<module>")],
        "IndexError: list index out of range",
        "torchrun: the error that @record wrote",
    ),
    ("sacred", "sacred", [(_ONE, 14, "run"), (_ONE, 9, "train")], _ZERO, "sacred"),
    ("hydra", "hydra", [(_ONE, 10, "main"), (_ONE, 5, "train")], _ZERO, "hydra-core"),
    (
        "group",
        "group",
        [(_ONE, 7, "load"), (_ONE, 6, "load"), (_ONE, 16, "<module>"), (_ONE, 11, "main")],
        "OSError: [Errno 5] Input/output error",
        "Python 3.11.7",
    ),
    (
        "faulthandler",
        "faulthandler",
        [(_ONE, 17, "<module>"), (_ONE, 12, "crash"), (_ONE, 8, "waits")],
        "Fatal Python error: Segmentation fault",
        "Python 3.11.7, faulthandler",
    ),
    (
        "loguru",
        "loguru",
        [
            (_ONE, 13, "<module>"),
            (_ONE, 10, "main"),
            (_ONE, 10, "<listcomp>"),
            (_ONE, 5, "ratio"),
        ],
        _ZERO,
        "loguru 0.7.3",
    ),
    (
        "rich-handler",
        "rich-handler",
        [(_ONE, 13, "<module>"), (_ONE, 9, "divide")],
        _ZERO,
        "rich 15.0.0, RichHandler",
    ),
    (
        "rich-group",
        "rich-group",
        [
            (_ONE, 14, "main"),
            (_ONE, 7, "divide"),
            (_ONE, 7, "<listcomp>"),
            (_ONE, 21, "<module>"),
            (_ONE, 18, "main"),
        ],
        _ZERO,
        "rich 15.0.0",
    ),
    ("typer", "typer", [(_ONE, 9, "main"), (_ONE, 5, "divide")], _ZERO, "typer"),
    (
        "logging-lines",
        "logging-lines",
        [(_ONE, 12, "<module>"), (_ONE, 8, "divide")],
        _ZERO,
        "logging, a record for each line",
    ),
    (
        "logging-indented",
        "logging-indented",
        [(_ONE, 13, "<module>"), (_ONE, 9, "divide")],
        _ZERO,
        "logging, an indented traceback",
    ),
    (
        "cython",
        "cython",
        [(_ONE, 6, "<module>"), ("fast.pyx", 4, "fast.total"), ("fast.pyx", 9, "fast.weigh")],
        "TypeError: unsupported operand type(s) for /: 'str' and 'int'",
        "Cython 3.3.1",
    ),
    (
        "multiprocessing",
        "multiprocessing",
        [(_ONE, 10, "<module>"), (_ONE, 5, "work")],
        _ZERO,
        "Python 3.11.7",
    ),
]

# Labels before each line: of rank R on node N, in second S. What writes them.
LABELS = {
    "srun": ("{R}: ", "srun --label, up to ten tasks"),
    "srun-two-digits": ("{R:02}: ", "srun --label, up to a hundred tasks"),
    "open-mpi-4": ("[1,{R}]<stderr>:", "Open MPI 4, mpirun --tag-output"),
    "horovodrun": ("Thu Nov 26 07:12:0{S} 2026[{R}]<stderr>:", "horovodrun over Gloo"),
    "sagemaker": ("[1,mpirank:{R},algo-{N}]<stderr>:", "SageMaker's mpirun"),
    "intel-mpi": ("[{R}] ", "Intel MPI, mpirun -prepend-rank"),
    "intel-mpi-pattern": ("[{R}@node0{N}] ", "Hydra, -prepend-pattern '[%r@%h]'"),
    "pdsh": ("node0{N}: ", "pdsh, so DeepSpeed's launcher on many nodes"),
    "pdsh-torchrun": ("node0{N}: [rank{R}]: ", "pdsh around torchrun"),
    "torchrun-role": ("[trainer{R}]:", "torchrun --role trainer --tee 3"),
    "ray": ("(RayTrainWorker pid=2288{R}, ip=192.0.2.{N}) ", "Ray, workers on two nodes"),
    "ray-old": ("(pid=2288{R}) ", "Ray 1"),
    "docker-compose": ("trainer-{N}  | ", "docker compose logs"),
    "kubectl": ("[pod/train-{R}/main] ", "kubectl logs --prefix"),
    "kubectl-timestamps": ("2026-11-26T07:12:0{S}.123456789Z ", "kubectl logs --timestamps"),
    "journald": ("Nov 26 07:12:0{S} node0{N} python[122{R}]: ", "journalctl"),
    "metaflow": ("2026-11-26 07:12:0{S}.123 [1764/train/{R} (pid 122{R})] ", "Metaflow"),
    "epoch-seconds": ("179567{S}582.9910 ", "a time in seconds"),
    "logger": ("2026-11-26 07:12:0{S},123 ERROR    stderr: ", "logging, stderr sent to a logger"),
    "logger-line": ("ERROR 11-26 07:12:0{S} [engine.py:13{R}] ", "vLLM's logger"),
    "parallel": ("{R}\t", "GNU parallel --tag"),
    "kernel-time": ("[  12{S}.345678] ", "seconds in brackets"),
    "epoch-whole-seconds": ("179567583{S} ", "a time in whole seconds"),
    "moreutils": ("[2026-11-26 07:12:0{S}] ", "ts '[%Y-%m-%d %H:%M:%S]'"),
    "absl": ("E1126 07:12:0{S}.123456 1405{R} train.py:57] ", "absl, a record for each line"),
    "logger-counter": ("#12 {S}.123 ", "docker build"),
}


def _ranks(log: str, label: str, ranks: int) -> str:
    """Return a log as so many ranks would have written it, their lines mixed."""
    lines = log.rstrip("\n").split("\n")
    numbered = itertools.product(range(len(lines)), range(ranks))
    return "\n".join(
        f"{label.format(R=rank, N=rank + 1, S=number * 9 // len(lines))}{lines[number]}"
        for number, rank in numbered
    )


def _read(log: str, files: Mapping[str, str]) -> tuple[list[Place], str]:
    found = [(frame.file, frame.line, frame.function) for frame in frames(log, files)]
    return found, last_error(log)


def _log(name: str) -> str:
    return (FOLDER / "tracebacks" / f"{name}.log").read_text("utf-8")


def _case(
    name: str, log: str, files: Mapping[str, str], found: list[Place], error: str, source: str
) -> Case:
    read: Callable[[], object] = partial(_read, log, files)
    return Case(name, (found, error), read, source)


def cases() -> Iterator[Case]:
    """Yield the logs as they were printed, then those with labels, then those of other ends."""
    for name, found, error, source in OF_ROWS:
        yield _case(name, _log(name), ROWS, found, error, source)
    for name, found, error in OF_TESTS:
        yield _case(name, _log(name), TESTED, found, error, "pytest 9.2.0")
    for program, name, found, error, source in OF_PROGRAMS:
        files = {"experiment.py": PROGRAMS[program], **BESIDE}
        yield _case(name, _log(name), files, found, error, source)
    plain = _log("python-3.11")
    for name, (label, source) in LABELS.items():
        ranks = 2 if "{R" in label or "{N" in label else 1
        labelled = _ranks(plain, label, ranks)
        yield _case(f"label-{name}", labelled, ROWS, _BOTH, _ROWS_ERROR, source)
    for name in ("rich", "stackprinter", "ipython", "pretty-errors", "python-3.13-colours"):
        found, error = next((row[1], row[2]) for row in OF_ROWS if row[0] == name)
        labelled = _ranks(_log(name), "{R}: ", 2)
        yield _case(f"srun-{name}", labelled, ROWS, found, error, f"srun --label, and {name}")
    for program, name, found, error, source in OF_PROGRAMS:
        if name in ("loguru", "tensorflow", "group", "faulthandler", "multiprocessing"):
            files = {"experiment.py": PROGRAMS[program], **BESIDE}
            labelled = _ranks(_log(name), "[1,{R}]<stderr>:", 2)
            yield _case(f"open-mpi-4-{name}", labelled, files, found, error, source)
    lines = plain.rstrip("\n").split("\n")
    docker = [json.dumps({"log": f"{x}\n", "stream": "stderr", "time": "2026"}) for x in lines]
    yield _case("docker-json", "\n".join(docker), ROWS, _BOTH, _ROWS_ERROR, "Docker's json-file")
    record = json.dumps({"event": "failed", "level": "error", "exception": plain.rstrip()})
    yield _case("json-record", f"start\n{record}\nend", ROWS, _BOTH, _ROWS_ERROR, "structlog")
    links = re.sub(r"(/scratch\S+py)", "\x1b]8;id=1;file://x\x1b\\\\\\1\x1b]8;;\x1b\\\\", plain)
    yield _case("links", links, ROWS, _BOTH, _ROWS_ERROR, "a terminal's links to files")
    doctest = textwrap.indent(plain, "    ")
    yield _case("doctest", f"Exception raised:\n{doctest}", ROWS, _BOTH, _ROWS_ERROR, "doctest")
    heading = f"{plain.rstrip()}\n=== ERRORS ===\nexperiment.py:9: UserWarning: slow\n"
    yield _case("heading-of-errors", heading, ROWS, _BOTH, _ROWS_ERROR, "a log's own heading")
    for name in ("python-3.11", "rich", "ipython"):
        windows = _log(name).replace("\n", "\r\n")
        yield _case(f"crlf-{name}", windows, ROWS, _BOTH, _ROWS_ERROR, f"{name}, \\r\\n")
