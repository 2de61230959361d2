"""Reads the sbatch options of a site profile (`extra`) as sbatch would read them.

This covers short and long forms, abbreviations, values after a space, and several flags behind one
dash. Options that hpcsci sets itself are refused by name: in sbatch the last one wins, and a trial
would silently lose its GPU, its log or its array.

Source: the sections "OPTIONS" of sbatch(1), releases 20.11 to 25.11.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hpcscientist.errors import SiteError
from hpcscientist.records.site import Site, SlurmSite

# name[:letter], then `=` if a value must follow, or `?` if one may follow.
_TABLE = """
account:A= acctg-freq= array:a= autocomplete= batch= bb= bbf= begin:b= chdir:D= cluster=
clusters:M= cluster-constraint= comment= consolidate-segments constraint:C= container=
container-id= context= contiguous core-spec:S= cores-per-socket= cpu-freq= cpus-per-gpu=
cpus-per-task:c= deadline= delay-boot= dependency:d= distribution:m= error:e= exclude:x=
exclusive? export= export-file= external extra= extra-node-info:B= get-user-env? gid= gpu-bind=
gpu-freq= gpus:G= gpus-per-node= gpus-per-socket= gpus-per-task= gres= gres-flags= help:h hint=
hold:H ignore-pbs input:i= job-name:J= kill-on-invalid-dep= licenses:L= mail-type= mail-user=
mcs-label= mem= mem-bind= mem-per-cpu= mem-per-gpu= mem-update= mincpus= network= nice? no-kill:k?
no-requeue nodefile:F= nodelist:w= nodes:N= ntasks:n= ntasks-per-core= ntasks-per-gpu=
ntasks-per-node= ntasks-per-socket= ntasks-per-tres= oom-kill-step? open-mode= output:o=
overcommit:O oversubscribe:s parsable partition:p= power= prefer= priority= profile= propagate?
qos:q= quiet:Q reboot requeue? reservation= resources= resv-ports? runtime= segment= signal=
sockets-per-node= spread-job spread-segments stepmgr switches= tasks-per-node= test-only
thread-spec= threads-per-core= time:t= time-min= tmp= tres-bind= tres-per-task= uid= usage
use-min-nodes verbose:v version:V wait:W wait-all-nodes= wckey= wrap=
"""
_SAME = {"cluster": "clusters", "tasks-per-node": "ntasks-per-node"}

_MARKS = "the campaign's jobs are found again by it"
_LOGS = "logs lie in the run directory"
_TIME = "the time limit follows from the recipe's budgets ([budgets] in recipe.toml)"
_SHAPE = "a trial has one task on one node, with the CPUs of recipe.toml ([resources])"
_GPUS = "GPUs follow from recipe.toml (resources.gpus); gres and gpu_option say how to ask for them"
_MEMORY = 'memory follows from recipe.toml and memory_margin_mb; or set memory = "none"'
_ANSWER = "sbatch would answer in another way, or submit nothing"
_STOP = "workers are stopped by Slurm's own signals"
_ENVIRONMENT = "workers need the driver's environment; only ALL and ALL,NAME=VALUE are possible"
_OURS = {
    "array": "trials are arranged into arrays; at_once bounds how many run at once",
    **dict.fromkeys(("job-name", "comment"), _MARKS),
    **dict.fromkeys(("output", "error", "input", "open-mode"), _LOGS),
    **dict.fromkeys(("time", "time-min"), _TIME),
    **dict.fromkeys(("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "mincpus"), _SHAPE),
    **dict.fromkeys(("ntasks-per-core", "ntasks-per-socket", "ntasks-per-tres"), _SHAPE),
    **dict.fromkeys(("gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket"), _GPUS),
    **dict.fromkeys(("ntasks-per-gpu", "cpus-per-gpu", "tres-per-task"), _GPUS),
    **dict.fromkeys(("mem", "mem-per-cpu", "mem-per-gpu"), _MEMORY),
    **dict.fromkeys(("wait", "wrap", "test-only", "quiet", "external", "autocomplete"), _ANSWER),
    **dict.fromkeys(("help", "usage", "version", "uid", "gid"), _ANSWER),
    **dict.fromkeys(("export", "export-file", "propagate"), _ENVIRONMENT),
    "signal": _STOP,
}
# Options that have a key of their own in the profile.
_KEYS = {name: name for name in ("account", "partition", "qos", "constraint", "exclude")}
_KEYS |= {"requeue": "requeue = true", "no-requeue": "requeue = false"}
# Options exactly as hpcsci sets them; a repetition changes nothing.
_AS_OURS = {
    *(("nodes", "1"), ("nodes", "1-1"), ("ntasks", "1"), ("ntasks-per-node", "1")),
    *(("open-mode", "append"), ("propagate", "NONE"), ("parsable", None)),
}


@dataclass(frozen=True, slots=True)
class Extra:
    """What `extra` adds: `options` by their long names, None for a flag without a value.

    `gres` are further generic resources to request beside GPUs. `cluster` is "" for none.
    """

    options: Mapping[str, str | None]
    gres: tuple[str, ...] = ()
    cluster: str = ""


def options(entries: Iterable[str], where: str = "extra") -> list[tuple[str, str | None]]:
    """Return long names and values of options, as sbatch reads them. Raises SiteError."""
    words: list[str] = []
    for entry in entries:
        try:
            words += shlex.split(entry)
        except ValueError as error:
            raise SiteError("value", f"{where}: {entry!r}: {error}; close the quotation") from error
    found = []
    rest = iter(words)
    for word in rest:
        if word.startswith("--") and len(word) > 2:
            found.append(_long(word[2:], rest, where))
        elif word.startswith("-") and len(word) > 1 and word != "--":
            found += _short(word[1:], rest, where)
        else:
            raise SiteError(
                "word", f"{where}: {word!r} is no option; quote a value that has spaces in it"
            )
    return found


def extra_of(
    entries: Iterable[str], where: str = "extra", *, memory: str = "mem", requeue: bool = True
) -> Extra:
    """Return what `extra` adds to a job. `memory` and `requeue` are those of the profile's [slurm].

    Raises SiteError for an option that hpcsci sets, that has a key of its own, or that is invalid.
    """
    added: dict[str, str | None] = {}
    gres: list[str] = []
    clusters: set[str] = set()
    for name, value in options(entries, where):
        if (name, value) in _AS_OURS or name == ("requeue" if requeue else "no-requeue"):
            continue
        if name == "clusters":
            clusters.add(one_cluster(value or "", where))
        elif name == "gres":
            gres += _beside_gpus(value or "", where)
        elif name in _KEYS:
            key = _KEYS[name] if "=" in _KEYS[name] else _as_key(name, value)
            raise SiteError(f"key:{name}", f"{where}: --{name} has a key of its own: write {key}")
        elif name in _OURS and not _is_harmless(name, value, memory):
            raise SiteError(f"ours:{name}", f"{where}: --{name} is set by hpcsci: {_OURS[name]}")
        else:
            added[name] = value
    if len(clusters) > 1:
        raise _several(", ".join(sorted(clusters)), where)
    return Extra(added, tuple(dict.fromkeys(gres)), next(iter(clusters), ""))


def extra_of_trials(slurm: SlurmSite) -> Extra:
    """Return what a profile's [slurm] adds to arrays of trials. Raises SiteError."""
    found = extra_of(slurm.extra, "slurm.extra", memory=slurm.memory, requeue=slurm.requeue)
    if slurm.cluster and found.cluster not in ("", slurm.cluster):
        raise _several(f"{slurm.cluster}, {found.cluster}", "slurm.extra")
    return found


def extra_of_controller(site: Site) -> Extra:
    """Return what a profile's [controller] adds to its job. Raises SiteError."""
    where, slurm = "controller.extra", site.slurm
    found = extra_of(site.controller.extra, where, memory=slurm.memory, requeue=slurm.requeue)
    if "dependency" in found.options:
        said = "set by hpcsci: each job that drives waits for the one before"
        raise SiteError("ours:dependency", f"{where}: --dependency is {said}")
    if found.cluster not in ("", cluster_of(slurm)):
        raise _several(f"{found.cluster} and that of [slurm]", where)
    return found


def cluster_of(slurm: SlurmSite) -> str:
    """Return the cluster that every Slurm command must address; "" for the local one.

    This checks nothing else, so that users can look at and cancel a campaign of an earlier release
    whose profile would be refused today. Raises SiteError if several clusters are named.
    """
    if slurm.cluster:
        return one_cluster(slurm.cluster, "slurm.cluster")
    with contextlib.suppress(SiteError):  # reported when a job is made
        named = [value or "" for name, value in options(slurm.extra) if name == "clusters"]
        return one_cluster(",".join(dict.fromkeys(named)), "slurm.extra")
    return ""


def one_cluster(name: str, where: str) -> str:
    """Return a cluster's name. Raises SiteError for several: their job ids are not unique."""
    if "," in name or name == "all":
        raise _several(name, where)
    return name


def gpu_options(slurm: SlurmSite, gpus: int, beside: Sequence[str] = ()) -> dict[str, str]:
    """Return the options that ask for GPUs and for other generic resources (`beside`)."""
    if slurm.gpu_option == "gres":
        gres = ",".join([*([slurm.gres.format(gpus=gpus)] if gpus else []), *beside])
        return {"gres": gres} if gres else {}
    found = {"gres": ",".join(beside)} if beside else {}
    if gpus:
        found[slurm.gpu_option] = slurm.gres.format(gpus=gpus).removeprefix("gpu:")
    return found


def written(name: str, value: str | None) -> str:
    """Return an option as a script writes it after #SBATCH."""
    return f"--{name}" if value is None else f"--{name}={shlex.quote(value)}"


def _several(names: str, where: str) -> SiteError:
    said = f"{where}: several clusters ({names}): arrays are followed on one; name one in cluster"
    return SiteError("clusters", said)


def _is_harmless(name: str, value: str | None, memory: str) -> bool:
    """Return whether an option that hpcsci sets may still be given, because it changes nothing."""
    if name == "export":
        return (value or "").split(",")[0] == "ALL"
    return name.startswith("mem") and memory == "none"


def _as_key(name: str, value: str | None) -> str:
    said = (value or "").replace('"', "")
    return f'{name} = ["{said}"]' if name == "exclude" else f'{name} = "{said}"'


def _beside_gpus(value: str, where: str) -> list[str]:
    found = [part for part in value.split(",") if part]
    if any(part.removeprefix("gres/").partition(":")[0] == "gpu" for part in found):
        raise SiteError(
            "ours:gres", f'{where}: {_GPUS}: write gres = "gpu:{{gpus}}", with the type in between'
        )
    return found


@dataclass(frozen=True, slots=True)
class _Form:
    name: str
    takes: str  # "" nothing, "=" a value, "?" perhaps one


def _forms() -> tuple[dict[str, _Form], dict[str, _Form]]:
    long, short = {}, {}
    for word in _TABLE.split():
        takes = word[-1] if word[-1] in "=?" else ""
        name, _, letter = word.removesuffix(takes).partition(":")
        long[name] = _Form(_SAME.get(name, name), takes)
        if letter:
            short[letter] = long[name]
    return long, short


_LONG, _SHORT = _forms()


def _long(text: str, rest: Iterable[str], where: str) -> tuple[str, str | None]:
    name, has_value, value = text.partition("=")
    near = {name} if name in _LONG else {known for known in _LONG if known.startswith(name)}
    if len(near) > 1:
        listed = ", ".join(f"--{one}" for one in sorted(near))
        raise SiteError("unclear", f"{where}: --{name} may be any of {listed}; write it out")
    if not near:  # an option of one of the site's Slurm plugins
        return name, value if has_value else None
    form = _LONG[near.pop()]
    if form.takes == "=" and not has_value:
        return form.name, _next(rest, f"--{form.name}", where)
    if has_value and not form.takes:
        raise SiteError("value", f"{where}: --{form.name} takes no value, not {value!r}")
    return form.name, value if has_value else None


def _short(text: str, rest: Iterable[str], where: str) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    while text:
        letter, text = text[0], text[1:]
        form = _SHORT.get(letter)
        if form is None:
            raise SiteError("word", f"{where}: -{letter} is no option of sbatch; see sbatch(1)")
        if not form.takes:
            found.append((form.name, None))
            continue
        if text.startswith("="):
            wrong = f"-{letter}{text}"
            raise SiteError(
                "value", f"{where}: {wrong}: a short option has no '='; write --{form.name}{text}"
            )
        value = text or None
        if form.takes == "=" and value is None:
            value = _next(rest, f"-{letter}", where)
        return [*found, (form.name, value)]
    return found


def _next(rest: Iterable[str], option: str, where: str) -> str:
    for word in rest:
        return word
    raise SiteError("value", f"{where}: {option} needs a value; give one")
