"""A site profile: what a cluster demands and offers. Written by people as TOML, frozen at launch.

Empty strings and zeros mean "do not ask for it" or "read it from Slurm".
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hpcscientist.records.base import Record

BackendKind = Literal["local", "slurm"]
"""What runs trials: each has a backend and a site of its own."""

# These become words of a job script's #SBATCH lines.
Word = Annotated[str, Field(pattern=r"^[^\s]*$")]
Option = Annotated[str, Field(pattern=r"^-[^\n]*$")]
Gres = Annotated[str, Field(pattern=r"^[^{}\s]*\{gpus\}[^{}\s]*$")]
Bind = Annotated[str, Field(pattern=r"^[/$][^,:\n]*(:/[^,:\n]*)?$")]


class SlurmSite(Record):
    """How arrays of trials are submitted. MiB, minutes, seconds, counts.

    `gres` is the form of a request for GPUs, with `{gpus}` for the number; it is used only for
    trials that need some. `memory` says how memory is asked for, `memory_margin_mb` what is
    added for the worker beside the candidate. `at_once` is the array's %N (0: no throttle).
    `pack_s`: trials expected to be shorter are put into one array task until it is about that
    long (0: never). `max_array` and `max_submit` 0: read from Slurm. `max_minutes` bounds the
    time limit of a packed array task (0: the partition's). `extra` are further sbatch options,
    written as on its command line.
    """

    account: Word = ""
    partition: Word = ""
    qos: Word = ""
    constraint: Word = ""
    gres: Gres = "gpu:{gpus}"
    memory: Literal["mem", "mem-per-cpu", "none"] = "mem"
    memory_margin_mb: int = Field(default=512, ge=0)
    at_once: int = Field(default=0, ge=0)
    pack_s: float = Field(default=60.0, ge=0)
    max_array: int = Field(default=0, ge=0)
    max_submit: int = Field(default=0, ge=0)
    max_minutes: int = Field(default=0, ge=0)
    requeue: bool = True
    exclude: tuple[Word, ...] = ()
    extra: tuple[Option, ...] = ()
    modules: tuple[Word, ...] = ()
    setup: tuple[str, ...] = ()
    python: str = ""
    accounting: Literal["auto", "yes", "no"] = "auto"


class WatchSite(Record):
    """How often Slurm is asked. Seconds.

    A round of at most one squeue and one sacct comes `round_min_s` after something happened,
    then ever later, up to `round_max_s`. Files of the run directory are looked at every
    `files_s`. `visible_s`: how long a shared file system may hide what another node wrote.
    `command_s`: after this long a scheduler command counts as unanswered. `gather_s`: how long
    trials are gathered into one array before it is submitted.
    """

    round_min_s: float = Field(default=2.0, gt=0)
    round_max_s: float = Field(default=15.0, gt=0)
    files_s: float = Field(default=1.0, gt=0)
    visible_s: float = Field(default=60.0, ge=0)
    command_s: float = Field(default=60.0, gt=0)
    gather_s: float = Field(default=1.0, ge=0)


class Host(Record):
    """What a trial finds on a compute node, beside what the recipe says.

    `scratch` is a node-local folder for private files, `$VARIABLES` allowed; empty: the system's
    temporary folder. `binds` are further folders a candidate sees read-only, `PATH` or
    `PATH:INSIDE`. `copy_image` copies the image to `scratch` once a node. `network` "open" is for
    sites where Apptainer cannot cut it; the campaign's header says so then.
    """

    scratch: str = ""
    binds: tuple[Bind, ...] = ()
    copy_image: bool = False
    network: Literal["none", "open"] = "none"


class ControllerSite(Record):
    """The job that drives a campaign (`launch --nodes`). Minutes, MiB, seconds.

    Account, partition, QOS, constraint, modules and setup are those of the trials unless given
    here. It stops cleanly `stop_before_s` before its time limit and its continuation goes on.
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
    extra: tuple[Option, ...] = ()


class ServingSite(Record):
    """Where models are served (`vllm:`). MiB.

    `python` is an interpreter that has vLLM and Ray; "" means the controller's. `image` is an
    image in which the engine runs instead. `scratch` is a node-local folder for caches,
    `$VARIABLES` allowed; "" means host.scratch. `object_store_mb` is Ray's, on each node.
    """

    python: str = ""
    image: str = ""
    scratch: str = ""
    object_store_mb: int = Field(default=256, ge=80)


class Site(Record):
    """A site profile."""

    name: str = ""
    slurm: SlurmSite = SlurmSite()
    watch: WatchSite = WatchSite()
    host: Host = Host()
    controller: ControllerSite = ControllerSite()
    serving: ServingSite = ServingSite()
