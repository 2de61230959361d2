"""A campaign whose models are served on the nodes of its own jobs, and what is left of it there."""

from __future__ import annotations

import contextlib
import json
import pwd
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from campaigns import PLAIN
from controlled import Controlled
from slurm_kit import Cluster

from hpcscientist.files.rundir import SURVEY, RunPaths
from hpcscientist.models.serving.order import Order, ServingPaths
from hpcscientist.records.events import Event, PlaneStarted, PlaneStopped, ReplyRecorded

Done = subprocess.CompletedProcess[str]

TESTS = Path(__file__).resolve().parents[1]
# The trained model knows this form of edits (see tiny_lessons).
TAUGHT = PLAIN + 'edits = "search"\n'
LIMIT_S = 1500
SETTINGS = """\
[serving]
context = {context}
kv_cache_gb = 0.5
eager = true
{serving}
[ideation]
temperature = {temperature}
max_tokens = {answer}
[code]
max_tokens = {answer}
[loop]
debug_rounds = 1
"""
# What a node holds of a plane: processes' folders and shared memory, and ports that answer.
LOOK = """\
import json, os, socket, sys
since, left = float(sys.argv[2]), []
for folder in ("/tmp", "/dev/shm"):
    for entry in os.scandir(folder):
        if entry.name.startswith(("hpcsci-", "psm_", "sem.")):
            found = entry.stat(follow_symlinks=False)
            if found.st_uid == os.getuid() and found.st_ctime >= since:
                left.append(entry.path)
for port in json.loads(sys.argv[1]):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            left.append(f"port {port}")
print(json.dumps(left))
"""


def make(cluster: Cluster, command: list[str | Path]) -> Path:
    """Have a model made in a folder that every node sees."""
    folder = cluster.make_folder("model") / "tiny"
    subprocess.run([*command, folder], check=True, capture_output=True, timeout=LIMIT_S)
    return folder


def write_site(served: Controlled, engine: str, where: str = "python", **controller: Any) -> None:
    """Have a campaign's controller jobs serve models by an interpreter that has an engine, or from
    an `image` that does.
    """
    served.write_site(controller={"cpus": 2, "memory_mb": 11000} | controller)
    site = served.folder / "site.toml"
    site.write_text(site.read_text() + f"[serving]\n{where} = {json.dumps(engine)}\n")


def launch(
    served: Controlled,
    model: Path,
    context: int,
    answer: int,
    temperature: float = 1.0,
    ideas: int = 6,
    *,
    nodes: int = 2,
    steps: str = TAUGHT,
    serving: str = "",
    env: Mapping[str, str] | None = None,
) -> Done:
    """Launch a campaign and follow it to its end. `context` and `answer` in tokens; `serving` and
    `steps` are lines of the settings, the first of [serving].
    """
    common = SETTINGS.format(
        context=context, answer=answer, temperature=temperature, serving=serving
    )
    text = common + steps
    (served.folder / "hpcsci.toml").write_text(text)
    return served.cluster.hpcsci(
        *("launch", "--recipe", "./tiny", "--run-dir", "run", "--ideas", str(ideas)),
        *("--backend", "slurm", "--site", "site.toml", "--nodes", str(nodes)),
        *("--model", f"vllm:{model}", "--allow-unsandboxed"),
        cwd=served.folder,
        timeout=LIMIT_S,
        env=env,
    )


def order_of(served: Controlled) -> Order:
    """What its latest plane serves, and where."""
    paths = ServingPaths(served.tiny.paths.serving)
    return Order.model_validate_json(paths.order.read_bytes())


def check_whole(served: Controlled, planes: int = 1) -> list[Event]:
    """It finished, every reply is on the disk once, and it has no job and no endpoint."""
    assert served.status()["state"] == "finished", served.logs()
    served.check_queue_empty()
    events = served.events()
    replies = [(e.idea_id, e.call) for e in events if isinstance(e, ReplyRecorded)]
    assert replies
    assert sorted(replies) == sorted(recorded(served.tiny.paths))
    assert len(set(replies)) == len(replies)
    assert sum(isinstance(event, PlaneStarted) for event in events) == planes
    assert sum(isinstance(event, PlaneStopped) for event in events) == planes
    assert not ServingPaths(served.tiny.paths.serving).endpoint.exists()
    return events


def check_nothing_left(served: Controlled, nodes: Iterable[str], ports: Iterable[int]) -> None:
    """No process, and no folder, shared memory or port of a plane is left on any of the nodes.

    What lay there before its launch (images of trials, kept for the next) is not its own.
    """
    with contextlib.suppress(AssertionError):
        served.wait_until(lambda: not family(served))
    assert family(served) == []
    since = served.tiny.paths.campaign.stat().st_mtime
    for node in nodes:
        look = ["srun", "--quiet", f"--nodelist={node}", "python3", "-c", LOOK]
        asked = (json.dumps(list(ports)), str(since))
        seen = served.cluster.run(*look, *asked, cwd=served.folder)
        left = json.loads(seen.stdout)
        assert left == [], f"{node}: {left} {seen.stderr}"


@dataclass(frozen=True, slots=True)
class Own:
    """A process of who launched a campaign. `title`: its command line, or what it calls itself."""

    node: str
    title: str
    process: psutil.Process


def family(served: Controlled) -> list[Own]:
    """All processes that they have on nodes, which are of this machine, each with a network of its
    own. By that, for a process that gives itself a title writes it over its environment.
    """
    spaces, mine = {}, pwd.getpwnam(served.cluster.user).pw_uid
    for process in psutil.process_iter(["name", "cmdline"]):
        # One that is ending has no command line any more.
        if process.info["name"] == "slurmd" and process.info["cmdline"]:
            spaces[_network(process)] = process.info["cmdline"][-1]
    found = []
    for process in psutil.process_iter(["uids", "cmdline"]):
        uids, node = process.info["uids"], spaces.get(_network(process))
        if node and uids is not None and uids.real == mine:
            found.append(Own(node, " ".join(process.info["cmdline"] or []), process))
    return found


def _network(process: psutil.Process) -> str:
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{process.pid}/ns/net").readlink())
    return ""


def at_work(served: Controlled) -> set[str]:
    """On which nodes there are engines."""
    return {own.node for own in family(served) if own.title.startswith("VLLM::EngineCore")}


@contextmanager
def launching(served: Controlled, *given: Any, **options: Any) -> Iterator[Future[Done]]:
    """Launch a campaign in a thread: it is under way until the result is there."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(launch, served, *given, **options)


def await_reply(served: Controlled, launched: Future[Done]) -> None:
    """Wait until a campaign's first reply is on the disk."""
    served.wait_until(lambda: launched.done() or recorded(served.tiny.paths), LIMIT_S)
    assert not launched.done(), launched.result().stderr + served.logs()


def await_engines(served: Controlled, launched: Future[Done]) -> Order:
    """Wait until an engine was seen on each node of the plane, from when it is being loaded on: a
    campaign may end soon after its first reply.
    """
    seen = set[str]()

    def are_seen() -> Order | None:
        seen.update(at_work(served))
        if launched.done() or not ServingPaths(served.tiny.paths.serving).order.exists():
            return None
        order = order_of(served)
        return order if seen >= set(order.nodes) else None

    found = served.wait_until(lambda: are_seen() or launched.done(), LIMIT_S)
    assert isinstance(found, Order), (seen, launched.result().stderr, served.logs())
    return found


def recorded(paths: RunPaths) -> list[tuple[str, str]]:
    """The calls whose replies are on the disk, by idea and key."""
    return [
        (chat.parent.name, json.loads(line)["key"])
        for chat in [paths.idea(SURVEY).chat, *paths.root.glob("ideas/*/chat.jsonl")]
        if chat.exists()
        for line in chat.read_bytes().splitlines()
    ]
