"""Site profiles: what a cluster requires and offers. Written by people as TOML, frozen at launch.

Empty strings and zeros mean "do not request it" or "read it from Slurm".
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from hpcscientist.records.base import Record

BackendKind = str
"""What runs trials: `local`, `slurm`, or the name of a backend that another package adds. Each has
its own backend and site.
"""

# These become words in a job script's #SBATCH lines.
Word = Annotated[str, Field(pattern=r"^[^\s]*$")]
Options = Annotated[str, Field(pattern=r"^[^\n\r]+$")]
Gres = Annotated[str, Field(pattern=r"^[^{}\s]*\{gpus\}[^{}\s]*$")]
Bind = Annotated[str, Field(pattern=r"^[/$][^,:\n]*(:/[^,:\n]*)?$")]


def _as_sbatch_reads(pattern: str, forms: str) -> AfterValidator:
    def check(value: int | str) -> int | str:
        if not re.fullmatch(pattern, str(value)):
            raise PydanticCustomError(
                "form", "write it as sbatch reads it: {forms}", {"forms": forms}
            )
        return value

    return AfterValidator(check)


_TIME = _as_sbatch_reads(r"(\d+-)?\d+(:\d+){0,2}", "90 (minutes), 12:00:00 or 2-00:00:00")
_MEMORY = _as_sbatch_reads(r"\d+[KMGT]?", "64000 (MiB) or 64G")
Time = Annotated[int | str, _TIME]
Memory = Annotated[int | str, _MEMORY]


class SlurmSite(Record):
    """How arrays of trials are submitted. MiB, minutes, seconds, counts.

    Every Slurm command addresses `cluster` instead of the local one. `gres` is the form of a
    request for GPUs, with `{gpus}` for the number; it is used only for trials that need GPUs.
    `gpu_option` is the sbatch option that requests GPUs, for example `--gpus-per-node=a100:2`
    instead of `--gres=gpu:a100:2`. `memory` says how memory is requested; `memory_margin_mb` is
    added for the worker beside the candidate. `at_once` is the array's %N (0: no throttle).
    `pack_s`: trials expected to be shorter share an array task, until the task is about that long
    (0: never). An array task of trials shorter than half of `pack_s` accepts further ones until it
    is `stay_s` old (0: it accepts none). `max_array` and `max_submit` 0: read from Slurm.
    `max_minutes` bounds the time limit of a packed array task (0: the partition's limit). `extra`
    are further sbatch options, written as on its command line; see `config.sbatch` for the allowed
    ones.
    """

    cluster: Word = ""
    account: Word = ""
    partition: Word = ""
    qos: Word = ""
    constraint: Word = ""
    gres: Gres = "gpu:{gpus}"
    gpu_option: Literal["gres", "gpus", "gpus-per-node", "gpus-per-task"] = "gres"
    memory: Literal["mem", "mem-per-cpu", "none"] = "mem"
    memory_margin_mb: int = Field(default=512, ge=0)
    at_once: int = Field(default=0, ge=0)
    pack_s: float = Field(default=60.0, ge=0)
    stay_s: float = Field(default=300.0, ge=0)
    max_array: int = Field(default=0, ge=0)
    max_submit: int = Field(default=0, ge=0)
    max_minutes: int = Field(default=0, ge=0)
    requeue: bool = True
    exclude: tuple[Word, ...] = ()
    extra: tuple[Options, ...] = ()
    modules: tuple[Word, ...] = ()
    setup: tuple[str, ...] = ()
    python: str = ""
    accounting: Literal["auto", "yes", "no"] = "auto"


class PartitionChoice(Record):
    """A partition, or a list of partitions, for the jobs that fit all of its limits.

    `max_memory` limits a job's total memory. If `gpus` is omitted, jobs may have any number; 0
    means only jobs without GPUs, n means jobs with 1 to n GPUs. Other limits that are omitted do
    not apply. `name` and the other options replace those of [slurm] unless they are ""; `extra` is
    added to [slurm]'s.
    """

    name: Word = ""
    max_time: Time = 0
    max_memory: Memory = 0
    max_memory_per_cpu: Memory = 0
    max_cpus: int = Field(default=0, ge=0)
    gpus: int | None = Field(default=None, ge=0)
    account: Word = ""
    qos: Word = ""
    constraint: Word = ""
    gres: Gres | Literal[""] = ""
    extra: tuple[Options, ...] = ()


class WatchSite(Record):
    """How often the driver polls Slurm. Seconds.

    A round (one squeue) comes `round_min_s` after something happened; then the interval grows up
    to `round_max_s`. The driver asks sacct if tasks left the queue unseen; after `accounting_s`
    without an answer they count as lost. It checks files of the run directory every `files_s`.
    `visible_s`: how long a shared file system may hide what another node wrote. `command_s`: a
    scheduler command that takes longer counts as unanswered. `gather_s`: how long trials are
    collected into one array before it is submitted.
    """

    round_min_s: float = Field(default=2.0, gt=0)
    round_max_s: float = Field(default=15.0, gt=0)
    files_s: float = Field(default=1.0, gt=0)
    visible_s: float = Field(default=60.0, ge=0)
    command_s: float = Field(default=60.0, gt=0)
    accounting_s: float = Field(default=300.0, ge=0)
    gather_s: float = Field(default=1.0, ge=0)


class Host(Record):
    """A trial's environment on a compute node, besides what the recipe says.

    `scratch` is a node-local folder for private files, `$VARIABLES` allowed; empty: the system's
    temporary folder. `binds` are further folders that a candidate sees read-only, `PATH` or
    `PATH:INSIDE`. `copy_image` copies the image to `scratch` once per node. `network` "open" is for
    sites where Apptainer cannot isolate the network; the campaign's header then says so.
    """

    scratch: str = ""
    binds: tuple[Bind, ...] = ()
    copy_image: bool = False
    network: Literal["none", "open"] = "none"


class ControllerSite(Record):
    """The job that drives a campaign (`launch --nodes`). Minutes, MiB, seconds.

    Account, partition, QOS and constraint default to those of the trials; modules and setup are
    those of the trials. The job stops cleanly `stop_before_s` before its time limit, and the next
    job of the chain continues.
    """

    account: Word = ""
    partition: Word = ""
    qos: Word = ""
    constraint: Word = ""
    minutes: int = Field(default=1440, ge=1)
    cpus: int = Field(default=1, ge=1)
    memory_mb: int = Field(default=2048, ge=256)
    gpus: int = Field(default=0, ge=0)
    stop_before_s: int = Field(default=120, ge=10)
    max_links: int = Field(default=1000, ge=1)
    extra: tuple[Options, ...] = ()


class ServingSite(Record):
    """Where models are served (`vllm:`). MiB.

    `python` is an interpreter that has vLLM and Ray; "" means the controller's. `image` is a
    container image in which the engine runs instead. `scratch` is a node-local folder for caches,
    `$VARIABLES` allowed; "" means host.scratch. `object_store_mb` is the size of Ray's object store
    on each node.
    """

    python: str = ""
    image: str = ""
    scratch: str = ""
    object_store_mb: int = Field(default=256, ge=80)


class Site(Record):
    """A site profile. A job uses the first of `partitions` it fits; see `config.partitions`."""

    name: str = ""
    slurm: SlurmSite = SlurmSite()
    partitions: tuple[PartitionChoice, ...] = ()
    watch: WatchSite = WatchSite()
    host: Host = Host()
    controller: ControllerSite = ControllerSite()
    serving: ServingSite = ServingSite()
