"""What becomes of a campaign when the Ray that serves its models is lost under it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import psutil
import pytest
from campaigns import TinyCampaign
from controlled import Controlled, starts, stops
from served_campaign import (
    LIMIT_S,
    await_reply,
    check_nothing_left,
    check_whole,
    family,
    launching,
    order_of,
    recorded,
    write_site,
)

from hpcscientist.history import journal
from hpcscientist.models.serving.order import ServingPaths
from hpcscientist.models.serving.plane import read_endpoint
from hpcscientist.records.events import IdeaEnded, PlaneStopped, ReplyRecorded, TrialEnded

pytestmark = [pytest.mark.e2e, pytest.mark.slurm, pytest.mark.serving, pytest.mark.timeout(1800)]

IDEAS = 2


def test_a_killed_head_is_gone_on_from_in_another_job(
    served: Controlled, random_model: Path
) -> None:
    options = {"context": 16_384, "answer": 2_000, "ideas": IDEAS}
    with launching(served, random_model, **options, nodes=1) as launched:
        await_reply(served, launched)
        first, before = order_of(served), recorded(served.tiny.paths)
        killed = ray_of(served, first.nodes[0])
        assert {process.name() for process in killed} == {"gcs_server", "raylet"}
        for process in killed:
            process.kill()
        done = launched.result()
    assert done.returncode == 3, done.stderr + served.logs()
    events = check_whole(served, planes=2)
    assert len(starts(events)) == 2
    (lost,) = stops(events)
    assert f"ended on {first.nodes[0]} (status " in lost.reason
    # What was recorded before is where it was, and was not asked for again.
    assert set(before) < set(recorded(served.tiny.paths))
    scored = Counter(e.report.trial_id for e in events if isinstance(e, TrialEnded))
    assert set(scored.values()) == {1}
    assert max(served.tiny.executions().values()) == 1
    assert sum(isinstance(event, IdeaEnded) for event in events) == IDEAS
    second = order_of(served)
    assert second.nonce != first.nonce
    ports = {*first.ports.all(), *second.ports.all()}
    check_nothing_left(served, {*first.nodes, *second.nodes}, ports)


def test_a_node_whose_ray_is_killed_is_started_again(
    served: Controlled, random_model: Path
) -> None:
    """What was in flight there is asked again; the campaign needs no other job for it."""
    options = {"context": 16_384, "answer": 2_000, "ideas": 3 * IDEAS}
    with launching(served, random_model, **options) as launched:
        await_reply(served, launched)
        order = order_of(served)
        killed = ray_of(served, order.nodes[1])
        assert {process.name() for process in killed} == {"raylet"}
        for process in killed:
            process.kill()
        gone = {process.pid for process in killed}
        served.wait_until(
            lambda: (
                launched.done()
                or any(process.pid not in gone for process in ray_of(served, order.nodes[1]))
            )
        )
        assert not launched.done(), launched.result().stderr + served.logs()
        done = launched.result()
    assert done.returncode == 3, done.stderr + served.logs()
    assert f"model plane: node {order.nodes[1]} was lost" in served.logs()
    events = check_whole(served)
    assert len(starts(events)) == 1
    assert stops(events) == []
    assert sum(isinstance(event, IdeaEnded) for event in events) == 3 * IDEAS
    check_nothing_left(served, order.nodes, order.ports.all())


def test_two_campaigns_of_one_user_share_a_node(
    served: Controlled, engine: str, random_model: Path
) -> None:
    """Each has a plane of its own there, and what ends the one leaves the other alone."""
    other = Controlled(served.cluster, TinyCampaign.prepare(served.cluster.make_folder()))
    shared = {"cpus": 1, "memory_mb": 5500, "extra": ["--nodelist=n1"]}
    for campaign in (served, other):
        write_site(campaign, engine, **shared)
    options = {"context": 8_192, "answer": 1_000, "nodes": 1}
    ideas = {served.folder: IDEAS, other.folder: 4 * IDEAS}
    with (
        launching(served, random_model, ideas=IDEAS, **options) as one,
        launching(other, random_model, ideas=4 * IDEAS, **options) as two,
    ):
        served.wait_until(lambda: one.done() or two.done() or both_answer(served, other), LIMIT_S)
        assert not one.done(), one.result().stderr + served.logs()
        assert not two.done(), two.result().stderr + other.logs()
        finished = [(served, one.result()), (other, two.result())]
    for campaign, done in finished:
        assert done.returncode == 3, done.stderr + campaign.logs()
        ended = [e for e in check_whole(campaign) if isinstance(e, IdeaEnded)]
        assert len(ended) == ideas[campaign.folder]
    first, second = (journal.read_lines(one.tiny.paths.journal) for one in (served, other))
    (end,) = [line.t for line in first if isinstance(line.event, PlaneStopped)]
    assert [line for line in second if isinstance(line.event, ReplyRecorded) and line.t > end]
    orders = [order_of(campaign) for campaign in (served, other)]
    assert [order.nodes for order in orders] == [("n1",), ("n1",)]
    ports = [set(order.ports.all()) for order in orders]
    assert not ports[0] & ports[1]
    earlier = min((served, other), key=lambda one: one.tiny.paths.campaign.stat().st_mtime)
    check_nothing_left(earlier, ["n1"], ports[0] | ports[1])


def both_answer(*campaigns: Controlled) -> bool:
    """Whether the models of all of them answer at once."""
    return all(
        read_endpoint(ServingPaths(campaign.tiny.paths.serving)) is not None
        for campaign in campaigns
    )


def ray_of(served: Controlled, node: str) -> list[psutil.Process]:
    """The processes without which there is no Ray of the user's on a node."""
    return [
        own.process
        for own in family(served)
        if own.node == node and Path(own.title.partition(" ")[0]).name in ("gcs_server", "raylet")
    ]
