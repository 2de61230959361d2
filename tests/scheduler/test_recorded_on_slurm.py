"""The very same cases on the development cluster: they end as they should, and its answers are
still those that were recorded."""

from __future__ import annotations

import asyncio
import getpass

import pytest
from cases import CASES
from faults_kit import why_no_faults
from real_world import RealWorld
from slurm_kit import Cluster

pytestmark = pytest.mark.slurm


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.by_hand])
def test_recorded(name: str, cluster: Cluster) -> None:
    reason = why_no_faults()
    if reason is not None:
        pytest.skip(f"NOT TESTED: {reason}")
    mine = cluster.as_user(getpass.getuser())
    world = RealWorld(name, mine, mine.make_folder())
    try:
        asyncio.run(CASES[name].play(world))
        difference = world.differs()
        assert difference is None, difference
    finally:
        world.close()
