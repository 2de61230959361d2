"""Every case with a scripted Slurm: it answers as was recorded, and no time passes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from cases import CASES
from scripted_world import ScriptedWorld
from turned_loop import TurnedLoop


@pytest.mark.parametrize("name", CASES)
def test_scripted(name: str, tmp_path: Path) -> None:
    world = ScriptedWorld(name, tmp_path)
    try:
        with asyncio.Runner(loop_factory=TurnedLoop) as runner:
            runner.run(CASES[name].play(world))
    finally:
        world.close()
