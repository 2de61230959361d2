"""What only the Ray adapter can meet: lost processes, lost clusters, wrong tokens."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import fanout_tasks as tasks
import psutil
import pytest
from fanout_tasks import Meeting
from ray_kit import RayNode, command, joined, kill, ray_node, skip_without_ray

from hpcscientist.errors import ServingError
from hpcscientist.models.fanout.choosing import open_fan_out
from hpcscientist.models.fanout.on_ray import RayCluster, RayFanOut
from hpcscientist.models.fanout.process import DRIVER, environment
from hpcscientist.models.fanout.threads import ThreadFanOut

LIMIT_S = 120.0


@pytest.fixture(scope="module")
def node() -> Iterator[RayNode]:
    skip_without_ray()
    with pytest.MonkeyPatch.context() as patch, ray_node() as started:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        yield started


@pytest.fixture
def nodes() -> Iterator[tuple[RayNode, RayNode]]:
    """A cluster of two, of its own: Ray knows a lost node for alive for some seconds more."""
    skip_without_ray()
    with pytest.MonkeyPatch.context() as patch, ray_node() as head, joined(head) as second:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        yield head, second


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., RayFanOut]]:
    """Opens fan-outs, which are closed whatever comes."""
    all_of_them: list[RayFanOut] = []

    def open_one(cluster: RayCluster, **options: float) -> RayFanOut:
        all_of_them.append(RayFanOut(cluster, width=4, **options))  # type: ignore[arg-type]
        return all_of_them[-1]

    yield open_one
    for one in all_of_them:
        await one.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not holds():  # noqa: ASYNC110 - processes tell
            await asyncio.sleep(0.01)


def drivers() -> list[psutil.Process]:
    """The fan-out's driver processes that live; who was killed a moment ago is none."""
    return [one for one in psutil.Process().children() if DRIVER in " ".join(command(one))]


@pytest.mark.serving
async def test_a_task_whose_process_was_killed_is_run_again(
    opened: Callable[..., RayFanOut], node: RayNode, tmp_path: Path
) -> None:
    fan_out = opened(node.cluster)
    survivor = await fan_out.run(tasks.die_at_first, Meeting(folder=str(tmp_path)))
    tried = tasks.tries(tmp_path)
    assert len(tried) == 2
    assert f"try-{survivor}" in tried


@pytest.mark.serving
async def test_retries_are_bounded_and_others_go_on(
    opened: Callable[..., RayFanOut], node: RayNode, tmp_path: Path
) -> None:
    fan_out = opened(node.cluster, retries=1)
    with pytest.raises(ServingError, match="hpcsci resume"):
        await fan_out.run(tasks.die_at_first, Meeting(folder=str(tmp_path), together=99))
    assert len(tasks.tries(tmp_path)) == 2
    assert await fan_out.run(tasks.double, 4) == 8


@pytest.mark.serving
async def test_a_call_that_is_cancelled_at_once_is_nobody_s_work(
    opened: Callable[..., RayFanOut], node: RayNode, tmp_path: Path
) -> None:
    fan_out = opened(node.cluster)
    assert await fan_out.run(tasks.double, 1) == 2
    for _ in range(2 * fan_out.width):  # each of a hand's places would stay taken
        call = asyncio.create_task(fan_out.run(tasks.wait_for_ever, Meeting(folder=str(tmp_path))))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    async with asyncio.timeout(LIMIT_S):
        assert await asyncio.gather(*[fan_out.run(tasks.double, n) for n in range(8)])


@pytest.mark.serving
async def test_what_cannot_travel_is_said(opened: Callable[..., RayFanOut], node: RayNode) -> None:
    fan_out = opened(node.cluster)
    with pytest.raises(TypeError, match=r"the task's Unloadable \(first line\) cannot be pickled"):
        await fan_out.run(tasks.fail_unloadably, 1)
    with pytest.raises(TypeError, match="the task's result cannot be pickled"):
        await fan_out.run(tasks.return_a_lock, 1)
    with pytest.raises(TypeError, match="the item of double cannot be pickled"):
        await fan_out.run(tasks.double, lambda: 1)  # type: ignore[arg-type]


@pytest.mark.serving
async def test_close_leaves_no_process(opened: Callable[..., RayFanOut], node: RayNode) -> None:
    fan_out = opened(node.cluster)
    assert await fan_out.run(tasks.double, 1) == 2
    assert drivers()
    assert node.hands()
    await fan_out.close()
    assert not drivers()
    await until(lambda: not node.hands())


@pytest.mark.serving
async def test_a_driver_that_was_killed_leaves_nothing_on_the_cluster(
    opened: Callable[..., RayFanOut], node: RayNode, tmp_path: Path
) -> None:
    fan_out = opened(node.cluster, retries=0)
    waiting = asyncio.create_task(fan_out.run(tasks.wait_for_ever, Meeting(folder=str(tmp_path))))
    await until((tmp_path / "began").exists)
    (driver,) = drivers()
    kill(driver)
    with pytest.raises(ServingError, match="its process was killed"):
        await waiting
    await until(lambda: not node.hands())


@pytest.mark.serving
async def test_the_calls_of_a_driver_that_was_killed_go_out_again(
    opened: Callable[..., RayFanOut], node: RayNode, tmp_path: Path
) -> None:
    fan_out = opened(node.cluster)
    meeting = Meeting(folder=str(tmp_path), name="a", together=2)
    waiting = asyncio.create_task(fan_out.run(tasks.meet_later, meeting))
    await until((tmp_path / "here-a").exists)
    (driver,) = drivers()
    kill(driver)
    await until(lambda: drivers() not in ([], [driver]))
    other = fan_out.run(tasks.meet_later, meeting.model_copy(update={"name": "b"}))
    assert await asyncio.gather(waiting, other) == [2, 2]
    await fan_out.close()
    assert not drivers()
    await until(lambda: not node.hands())


@pytest.mark.serving
async def test_tasks_are_shared_by_the_nodes(
    opened: Callable[..., RayFanOut], nodes: tuple[RayNode, RayNode], tmp_path: Path
) -> None:
    """By each of several drivers: Ray placed one of them rightly by chance."""
    for number in range(4):
        place = tmp_path / str(number)
        place.mkdir()
        fan_out = opened(nodes[0].cluster)
        all_of_them = [Meeting(folder=str(place), name=name, together=4) for name in "abcd"]
        calls = [fan_out.run(tasks.meet_on_a_node, each) for each in all_of_them]
        found = Counter(await asyncio.gather(*calls))
        assert sorted(found.values()) == [2, 2], found
        assert [len(node.hands()) for node in nodes] == [1, 1]
        await fan_out.close()
        await until(lambda: not any(node.hands() for node in nodes))


@pytest.mark.serving
async def test_tasks_of_a_node_that_is_lost_run_on_another(
    opened: Callable[..., RayFanOut], nodes: tuple[RayNode, RayNode], tmp_path: Path
) -> None:
    fan_out = opened(nodes[0].cluster)
    all_of_them = [Meeting(folder=str(tmp_path), name=name, together=3) for name in "abc"]
    waiting = [
        asyncio.create_task(fan_out.run(tasks.meet_on_a_node, each)) for each in all_of_them[:2]
    ]
    await until(lambda: len(list(tmp_path.glob("here-*"))) == 2)
    assert [len(node.hands()) for node in nodes] == [1, 1]
    await asyncio.to_thread(nodes[1].kill)
    waiting.append(asyncio.create_task(fan_out.run(tasks.meet_on_a_node, all_of_them[2])))
    async with asyncio.timeout(LIMIT_S):
        found = await asyncio.gather(*waiting)
    assert len(set(found)) == 1


@pytest.mark.serving
async def test_a_wrong_token_is_refused(
    opened: Callable[..., RayFanOut], node: RayNode, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(secrets.token_hex(32))
    wrong = node.cluster.model_copy(update={"token_file": str(token)})
    fan_out = opened(wrong, ready_s=30)
    with pytest.raises(ServingError, match="no connection to the Ray cluster") as caught:
        await fan_out.run(tasks.double, 1)
    assert token.read_text() not in str(caught.value)
    with pytest.raises(ServingError, match="no connection"):
        await fan_out.run(tasks.double, 1)
    await fan_out.close()
    assert not drivers()


@pytest.mark.serving
async def test_a_cluster_that_is_gone(opened: Callable[..., RayFanOut], tmp_path: Path) -> None:
    skip_without_ray()
    with pytest.MonkeyPatch.context() as patch, ray_node() as node:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        fan_out = opened(node.cluster)
        meeting = Meeting(folder=str(tmp_path))
        waiting = [asyncio.create_task(fan_out.run(tasks.wait_for_ever, meeting)) for _ in range(6)]
        await until((tmp_path / "began").exists)
        await asyncio.to_thread(node.kill)
        async with asyncio.timeout(LIMIT_S):
            ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in ended] == [ServingError] * 6
        assert "hpcsci resume" in str(ended[0])
        with pytest.raises(ServingError):
            await fan_out.run(tasks.double, 1)
        await fan_out.close()
    assert not drivers()


async def test_an_interpreter_that_is_not_there(
    opened: Callable[..., RayFanOut], tmp_path: Path
) -> None:
    cluster = RayCluster(address="127.0.0.1:1", python=str(tmp_path / "python"))
    fan_out = opened(cluster)
    with pytest.raises(ServingError, match=r"cannot be run .*serving\.python"):
        await fan_out.run(len, "item")


async def test_an_interpreter_without_ray(opened: Callable[..., RayFanOut], tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'ray'\" >&2\nexit 1\n"
    )
    python.chmod(0o755)
    fan_out = opened(RayCluster(address="127.0.0.1:1", python=str(python)))
    with pytest.raises(ServingError, match=r"No module named 'ray'; .*serving\.python has Ray"):
        await fan_out.run(len, "item")


async def test_an_interpreter_behind_a_command(
    opened: Callable[..., RayFanOut], tmp_path: Path
) -> None:
    wrapper = tmp_path / "my wrapper"
    wrapper.write_text('#!/bin/sh\necho "started with $1, then $2" >&2\nexit 1\n')
    wrapper.chmod(0o755)
    fan_out = opened(RayCluster(address="127.0.0.1:1", python=f"'{wrapper}' exec python3"))
    with pytest.raises(ServingError, match="started with exec, then python3"):
        await fan_out.run(len, "item")


# Speaks as the process of Ray's driver does; is lost once it has been told four calls.
LOST_AT_FOUR = """
import sys
from hpcscientist.models.fanout.frames import _HEADER, Frame, Kind, encode
calls = 0
while calls < 4:
    kind, number, length = _HEADER.unpack(sys.stdin.buffer.read(_HEADER.size))
    sys.stdin.buffer.read(length)
    calls += kind == Kind.RUN
    if kind == Kind.START:
        sys.stdout.buffer.write(encode(Frame(Kind.READY)))
        sys.stdout.buffer.flush()
"""


async def test_a_start_that_fails_is_not_made_again_by_each_who_waited_for_it(
    opened: Callable[..., RayFanOut], tmp_path: Path
) -> None:
    first, python, starts = tmp_path / "first.py", tmp_path / "python", tmp_path / "starts"
    first.write_text(LOST_AT_FOUR)
    python.write_text(
        f"#!/bin/sh\necho >>'{starts}'\n"
        f"[ $(wc -l <'{starts}') -gt 1 ] || exec '{sys.executable}' '{first}'\n"
        "echo 'no memory for it' >&2\nexit 1\n"
    )
    python.chmod(0o755)
    head = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    async with head:
        port = head.sockets[0].getsockname()[1]
        fan_out = opened(RayCluster(address=f"127.0.0.1:{port}", python=str(python)))
        calls = [fan_out.run(len, "item") for _ in range(4)]
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(one) for one in ended] == [ServingError] * 4
        assert all("no memory for it" in str(one) for one in ended)
        assert len(starts.read_text()) == 2
        with pytest.raises(ServingError, match="no memory for it"):
            await fan_out.run(len, "item")
        assert len(starts.read_text()) == 3  # who comes later tries again


async def test_which_fan_out() -> None:
    cluster = RayCluster(address="127.0.0.1:1")
    assert isinstance(open_fan_out("auto", 2, None), ThreadFanOut)
    assert isinstance(open_fan_out("auto", 2, cluster), RayFanOut)
    assert isinstance(open_fan_out("threads", 2, cluster), ThreadFanOut)
    assert open_fan_out("ray", 2, cluster).width == 2
    with pytest.raises(ServingError, match="no model plane"):
        open_fan_out("ray", 2, None)


def test_the_token_is_given_by_its_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "another cluster's")
    given = environment(RayCluster(address="127.0.0.1:1", token_file="/t"))
    assert "RAY_AUTH_TOKEN" not in given
    assert (given["RAY_AUTH_MODE"], given["RAY_AUTH_TOKEN_PATH"]) == ("token", "/t")
    assert os.environ["RAY_AUTH_TOKEN"] == "another cluster's"
