"""Asks the serving interpreter whether it has vLLM and Ray, and knows a model's architecture."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from hpcscientist.errors import ServingError
from hpcscientist.files.text import one_line, printable
from hpcscientist.models.serving.checking import weights
from hpcscientist.models.serving.nodes import supported
from hpcscientist.models.serving.nodes.offline import QUIET
from hpcscientist.records.base import Record
from hpcscientist.records.site import Site

# An engine in an image: the Apptainer command, its view of the node, and its variables.
#
# The container starts with a clean environment, because variables that a user's shell sets for
# other Pythons and libraries do not fit the image. Variables that select devices and networks
# are passed by name. They are read on the node, where Slurm sets them for each step.


APPTAINER = "apptainer"
CARRIED = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"),
    *("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    *("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_P2P_DISABLE"),
    *("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES"),
)
# --env is not used because it splits values at commas, which separate GPUs.
# The home seen from the image may hold the user's own packages, such as another torch.
_SHELL = (
    "export APPTAINERENV_PYTHONNOUSERSITE=1; "
    "for name in {names}; do "
    'eval "value=\\${{$name-}}"; [ -z "$value" ] || export "APPTAINERENV_$name=$value"; done; '
    'where="{scratch}"; [ ! -d "$where" ] || '
    'export APPTAINER_BIND="${{APPTAINER_BIND:+$APPTAINER_BIND,}}$where"; '
    'exec "$@"'
)
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class EngineImage:
    """An image in which engines run. `nvidia`: bind the node's driver libraries.

    `scratch` is the site's folder on each node's disk, with `$VARIABLES` unexpanded.
    """

    path: str
    nvidia: bool = False
    scratch: str = ""

    def prefix(self, folders: Iterable[Path] = ()) -> tuple[str, ...]:
        """Return the words before a command to run it in the image, with access to these folders.

        Raises ServingError for a folder that Apptainer cannot bind.
        """
        binds = [str(folder) for folder in dict.fromkeys(folders)]
        for path in binds:
            if set(path) & set(":,"):
                raise ServingError(
                    f"Apptainer cannot bind {path}: use a path without colon and comma, or set "
                    "serving.python in place of serving.image"
                )
        names = dict.fromkeys((*CARRIED, *_VARIABLE.findall(self.scratch)))
        plain = not set(self.scratch) & set('"`\\') and "$(" not in self.scratch
        shell = _SHELL.format(names=" ".join(names), scratch=self.scratch if plain else "")
        return (
            *("/bin/sh", "-c", shell, "sh", APPTAINER, "exec", "--cleanenv", "--pwd", "/"),
            *(["--no-privs"] if os.geteuid() == 0 else []),
            *(["--nv"] if self.nvidia else []),
            *(part for path in binds for part in ("--bind", path)),
            self.path,
        )


def model_folders(folder: Path) -> list[Path]:
    """Return a model's folder, and the folders that its files link to (a hub's cache)."""
    found = [folder]
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if path.is_symlink():
            found.append(path.resolve().parent)
    return list(dict.fromkeys(found))


INSTALL = "pip install 'hpcscientist[serving]' there, or set python in the site profile's [serving]"
# Releases of vLLM and Ray that were tested together: the models of campaigns, and single requests.
# Ray's LLM part, which pins a vLLM, is not used, so Ray need not be that release.
TRIED = (("0.32", "2.60"), ("0.32", "2.50"), ("0.29", "2.60"))
_ASK_S = 300.0  # vLLM's first import from a slow file system takes minutes
_QUIET = {
    **QUIET,
    "VLLM_LOGGING_LEVEL": "ERROR",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
}
_ANSWERS: dict[tuple[str, tuple[str, ...]], ServingEngine] = {}


class ServingEngine(Record):
    """What an interpreter has. Versions are "" if missing.

    `known`: the engine can run the architecture. `writes`: the architecture generates text.
    `lacks`: modules that serving needs and that are missing. `config`: what the engine reads from
    config.json for the text model, empty if it reads nothing.
    """

    python: str
    vllm: str = ""
    ray: str = ""
    known: bool = False
    writes: bool = False
    lacks: tuple[str, ...] = ()
    fault: str = ""
    config: dict[str, Any] = Field(default={})


def words(python: str) -> tuple[str, ...]:
    """Return the command that starts an interpreter: a file, or words split as in a shell.

    Raises ServingError if it is neither.
    """
    with contextlib.suppress(OSError):  # a command may be longer than a path can be
        if Path(python).is_file():  # whatever characters its path has
            return (python,)
    try:
        found = tuple(shlex.split(python))
    except ValueError as error:
        raise ServingError(
            f"serving.python {python!r}: {error}; write it in the site profile as in a shell"
        ) from error
    if not found:
        raise ServingError("serving.python names no interpreter; leave it out, or give a path")
    return found


def command(site: Site) -> tuple[str, ...]:
    """Return the command of the serving interpreter: in its image, or the site's, or this one.

    Raises ServingError.
    """
    image = image_of(site)
    if image is not None:
        return (*image.prefix(), *words(site.serving.python or "python3"))
    python = site.serving.python or site.slurm.python
    return words(python) if python else (sys.executable,)


def image_of(site: Site) -> EngineImage | None:
    """Return the image that the engine runs in at a site; None if it runs without one."""
    if not site.serving.image:
        return None
    nvidia = bool(site.controller.gpus or shutil.which("nvidia-smi"))
    return EngineImage(site.serving.image, nvidia, site.serving.scratch or site.host.scratch)


def said(python: Sequence[str]) -> str:
    """Return the command that starts an interpreter, as text for people."""
    listed = list(python)
    return " ".join(listed[listed.index(APPTAINER) :] if APPTAINER in listed else listed)


def ask(folder: Path, python: Sequence[str], timeout_s: float = _ASK_S) -> ServingEngine:
    """Return what the serving interpreter has, and what it reads from a model's config.json.

    `fault` says why nothing is known. The interpreter gets no network and no GPU. This takes as
    long as importing vLLM; answers are cached in this process.
    """
    config = weights.read_config(folder)
    asked = config, tuple(python)
    if asked not in _ANSWERS:
        _ANSWERS[asked] = _ask(config, python, timeout_s)
    return _ANSWERS[asked]


def _ask(config: str, python: Sequence[str], timeout_s: float) -> ServingEngine:
    source = Path(supported.__file__).read_text(encoding="utf-8")
    try:
        # Importing torch and vLLM leaves folders among the temporary files.
        with tempfile.TemporaryDirectory(prefix="hpcsci-ask-", ignore_cleanup_errors=True) as own:
            done = subprocess.run(
                [*python, "-c", source, weights.architecture(config)],
                input=config,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                cwd="/",
                env={**os.environ, **_QUIET, "TMPDIR": own},
                check=False,
            )
    except subprocess.TimeoutExpired:
        return ServingEngine(python="", fault=f"no answer within {timeout_s:g} s")
    except OSError as error:
        return ServingEngine(python="", fault=f"cannot be started: {error.strerror or error}")
    try:
        return ServingEngine.model_validate_json(done.stdout.strip().rpartition("\n")[2])
    except ValidationError:
        said = one_line(printable(done.stderr.strip().rpartition("\n")[2])) or "no answer"
        return ServingEngine(python="", fault=said)


def is_tried(engine: ServingEngine) -> bool:
    """Return whether these releases of vLLM and Ray were tested together."""
    return any(
        f"{engine.vllm}.".startswith(f"{vllm}.") and f"{engine.ray}.".startswith(f"{ray}.")
        for vllm, ray in TRIED
    )


def tried() -> str:
    """Return the releases that were tested together, as text."""
    return ", ".join(f"vLLM {vllm} with Ray {ray}" for vllm, ray in TRIED)


def reason(folder: Path, python: Sequence[str], engine: ServingEngine) -> str | None:
    """Return why an interpreter that answered so cannot serve a model, or None if it can."""
    architecture = weights.architecture(weights.read_config(folder))
    where = said(python)
    if engine.fault or not engine.vllm:
        return f"{where} cannot serve models: {engine.fault or 'no vLLM'}; {INSTALL}"
    if not engine.ray:
        return f"{where} has vLLM {engine.vllm} but no Ray; {INSTALL}"
    if engine.lacks:
        return (
            f"{where} has vLLM {engine.vllm} without {engine.lacks[0]}, by which it is served; "
            f"take what was tried: {tried()}"
        )
    if not engine.known:
        return (
            f"vLLM {engine.vllm} does not know {architecture}: take a newer vLLM, or another model"
        )
    if not engine.writes:
        return f"{architecture} writes no text (it embeds or scores): take a causal language model"
    return None
