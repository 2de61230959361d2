"""Waiting for other processes' files, and looking at what came of trials."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from trialkit import Bench

from hpcscientist.records.trial import Ended, TrialSpec
from hpcscientist.results.store import read_result


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not condition():  # noqa: ASYNC110 (files of other processes)
            await asyncio.sleep(0.02)


def no_start(spec: TrialSpec) -> None:
    return None


def no_end(spec: TrialSpec, ended: Ended | None) -> None:
    return None


def outcome(bench: Bench, spec: TrialSpec) -> object:
    report = read_result(bench.run.trial(spec.trial_id))
    return None if report is None else report.outcome


def nothing_is_kept(bench: Bench) -> bool:
    return not bench.run.submission.exists() or not any(bench.run.submission.iterdir())
