"""Site profiles after what real clusters demand: which options sbatch gets for a trial, or why not.

Each file of `site_profiles/` is a profile that can be copied. Its first lines are comments: what
demands such a profile; which trial is submitted; the options of its pilot and of its full run, but
for those that every array has; or the code of the refusal.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from corpus_kit import FOLDER, Case

from hpcscientist.config.layers import resolve_site
from hpcscientist.errors import ConfigError, SiteError
from hpcscientist.execution.backends.slurm.batches import ArrayRecord, need_of_limits
from hpcscientist.execution.backends.slurm.submit import script
from hpcscientist.records.site import Site
from hpcscientist.records.trial import Limits, RunId

_PROFILES = FOLDER / "site_profiles"
_USUAL = {"cpus": 1, "memory_mb": 4096, "gpus": 0, "pilot_s": 60, "full_s": 3600}
# An array of three trials, one a task; those of a profile's answer take their place.
_EVERY_ARRAY = (
    *("--array=0-2%3", "--comment=hpcsci:c1:b1", "--export=ALL", "--job-name=hpcsci-c1-b1"),
    *("--nodes=1", "--ntasks-per-node=1", "--open-mode=append", "--propagate=NONE", "--requeue"),
    *("--output=/run/b1/%A_%a_0_log.out", "--signal=USR2@5"),
)


@dataclass(frozen=True, slots=True)
class _Head:
    """The comments that a profile begins with."""

    source: str
    trial: dict[str, int]
    answer: dict[str, list[str]] | str


def cases() -> Iterator[Case]:
    """Each profile with a pilot and a full run."""
    for path in sorted(_PROFILES.glob("*.toml")):
        head = _head(path.read_text())
        yield Case(path.stem, head.answer, lambda p=path, h=head: _submitted(p, h), head.source)


def _head(text: str) -> _Head:
    source, *rest = (line[2:] for line in text.splitlines() if line.startswith("# "))
    said = dict(line.split(": ", 1) for line in rest)
    trial = _USUAL | {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", said.get("trial", ""))}
    if "refused" in said:
        return _Head(source, trial, said["refused"])
    whole = {name: _whole(shlex.split(said[name])) for name in ("pilot", "full")}
    return _Head(source, trial, whole)


def _whole(own: list[str]) -> list[str]:
    names = {option.partition("=")[0].replace("--no-requeue", "--requeue") for option in own}
    usual = [option for option in _EVERY_ARRAY if option.partition("=")[0] not in names]
    return sorted([*usual, *own])


def _submitted(path: Path, head: _Head) -> dict[str, list[str]] | str:
    """Return the options of both arrays, or the code of the refusal."""
    try:
        site, _ = resolve_site(str(path), path.parent, environment={})
        return {name: _options(site, head.trial, name) for name in ("pilot", "full")}
    except SiteError as error:
        return error.code
    except ConfigError:
        return "config"


def _options(site: Site, trial: dict[str, int], budget: str) -> list[str]:
    limits = Limits(
        deadline_s=float(trial[f"{budget}_s"]),
        memory_mb=trial["memory_mb"],
        output_mb=64,
        cpus=trial["cpus"],
        gpus=trial["gpus"],
    )
    batch = ArrayRecord(
        batch_id="b1",
        campaign_id="c1",
        trials_folder="/run/trials",
        tasks=tuple((RunId(trial_id=f"t{number}", run=1),) for number in range(3)),
        cpus=limits.cpus,
        gpus=limits.gpus,
        memory_mb=limits.memory_mb,
        minutes=need_of_limits(site.slurm, limits).minutes,
        created_at=0.0,
    )
    text = script(site, batch, Path("/run/b1"), "module")
    lines = re.findall(r"^#SBATCH (.+)$", text, re.MULTILINE)
    return sorted(word for line in lines for word in shlex.split(line))
