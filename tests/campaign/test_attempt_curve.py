"""Learning curves that are too long to be read whole."""

from __future__ import annotations

import json
from pathlib import Path

from bench_campaign import CampaignBench, ScriptedProposer, scored

from hpcscientist.authoring.run_reading import CUT, TAIL, curve
from hpcscientist.campaign.agents import Agents, Session
from hpcscientist.history.journal import Journal
from hpcscientist.launching.wiring import assemble
from hpcscientist.records.authoring import Brief, Draft


async def test_the_end_is_read_and_said_to_be_the_end(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    backend = await bench.drive(lambda _: scored(0.5), ScriptedProposer("alpha beta"))
    trial = backend.ran[0][0]
    path = bench.paths.trial(trial).out / "progress.jsonl"
    journal = Journal(bench.paths.journal, bench.state.apply)
    session = Session(bench.paths, journal, bench.state, 9)
    attempt_store = assemble(
        bench.config, bench.recipe, session, Agents(ScriptedProposer(), _Nobody(), None), backend
    ).conductor.performers.idea_runner.attempt_store
    lines = [json.dumps({"loss": float(n)}) for n in range(20_000)]
    path.write_text("\n".join(lines[:10]) + "\n")
    assert attempt_store.curve(trial) == path.read_text()
    path.write_text("\n".join(lines) + "\n")
    assert path.stat().st_size > TAIL
    read = attempt_store.curve(trial)
    assert read.startswith(f"{CUT}\n")
    assert len(read) == len(CUT) + 1 + TAIL
    assert "last 2e+04" in curve(read)
    assert f" {TAIL // 1024} KiB" in curve(read)
    path.unlink()
    assert attempt_store.curve(trial) == ""
    path.symlink_to(bench.paths.journal)
    assert attempt_store.curve(trial) == ""
    journal.close()


class _Nobody:
    """An author who is not asked."""

    async def write(self, brief: Brief) -> Draft:
        raise AssertionError

    redraft = fix = complete = improve = extend = write
