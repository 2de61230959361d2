"""A bench of authoring from its checks to what it measured, however often it is interrupted."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Coroutine, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.authoring import cost
from benchmarks.authoring.outcomes import Measured, Written
from benchmarks.authoring.preparing import BenchPaths, Options, Prepared, held, prepare
from benchmarks.authoring.wiring import wire
from hpcscientist.errors import BaselineFailed, HpcsciError, Interrupted, UsageError
from hpcscientist.execution.sandbox import isolation
from hpcscientist.files.atomic import write_text
from hpcscientist.files.lock import Lock
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.ports import Tell
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.trial import Isolation

RECORDED = (
    "THE REPAIRS ARE RECORDED REPLIES, the same in every mode: this shows that the way works, and "
    "cannot tell modes apart; give --model http://HOST:PORT/v1#NAME to compare them"
)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


def measure(options: Options, working: Path, tell: Tell = lambda _: None) -> Measured:
    """Run a bench, or go on with it, and return what it measured.

    `tell` is told what it may cost before anything is run, and then how it goes. Raises
    UsageError (also for a folder that another bench holds), EndpointError, Interrupted, and
    whatever stopped it: the same command takes it up again.
    """
    prepared = prepare(options, working)
    for text in _header(prepared):
        tell(text)
    try:
        with held(prepared) as (config, recipe, lock):
            return _measure(prepared, config, recipe, lock, tell)
    except (UsageError, BaselineFailed):
        raise
    except HpcsciError as error:
        raise _going_on(error, prepared.paths) from error


def _header(prepared: Prepared) -> Iterator[str]:
    checked = prepared.checked
    begun = "goes on with" if prepared.config else "begins"
    recipe, folder = checked.recipe.spec.name, checked.run_dir
    yield f"recipe {recipe}, model {checked.model_name}; {begun} {folder}"
    place = prepared.config or checked.placement
    yield isolation.statement(place.isolation, place.site.host)
    yield f"cost{', with what is done already' * bool(prepared.config)}: {cost.line(prepared)}"
    if prepared.recorded:
        yield RECORDED


def _measure(
    prepared: Prepared, config: CampaignConfig, recipe: Recipe, lock: Lock, tell: Tell
) -> Measured:
    wired = wire(prepared, config, recipe, lock, tell)
    wanted = prepared.checked.settings.ideas
    try:
        ideas = asyncio.run(_until_stopped(wired.run(wanted)))
    finally:
        wired.journal.close()
    if config.isolation is Isolation.NONE and not config.has_intact_data():
        tell("THE PREPARED DATA WERE CHANGED by what ran: trust nothing of this, and delete them")
    estimated = wired.bench.spent.estimated
    outcomes = [asdict(idea) for idea in ideas]
    write_text(prepared.paths.outcomes, json.dumps(outcomes, indent=1) + "\n")
    tell(f"what became of each idea: {prepared.paths.outcomes}")
    return Measured(ideas, wanted, prepared.rounds, prepared.recorded, estimated)


async def _until_stopped(work: Coroutine[Any, Any, list[Written]]) -> list[Written]:
    """Run to the end, or to the first signal: then what runs is ended, and nothing is lost."""
    task, stopped = asyncio.ensure_future(work), ""

    def on_signal(number: signal.Signals) -> None:
        nonlocal stopped
        if not stopped:  # a second one would disturb the stopping
            stopped = number.name
            task.cancel()

    loop = asyncio.get_running_loop()
    handled = [n for n in _SIGNALS if signal.getsignal(n) is not signal.SIG_IGN]  # nohup stays
    for number in handled:
        loop.add_signal_handler(number, on_signal, number)
    try:
        await asyncio.wait({task})
        if stopped and (task.cancelled() or task.exception() is not None):
            raise Interrupted(f"stopped by {stopped}; go on with `hpcsci resume`")
        return task.result()
    except BaseExceptionGroup as group:
        raise _first(group) from group
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a task group that says what is wrong: the others are its echoes."""
    leaves: list[BaseException] = []

    def walk(error: BaseException) -> None:
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                walk(inner)
        else:
            leaves.append(error)

    walk(group)
    return next((error for error in leaves if isinstance(error, HpcsciError)), leaves[0])


def _going_on(error: HpcsciError, paths: BenchPaths) -> HpcsciError:
    """Name the mend as it is for a bench, where a campaign's is named or none is."""
    again = f"the same command with --dir {paths.root}"
    said = str(error).replace("--run-dir", "--dir")
    if "`hpcsci resume`" in said:
        said = said.replace("run `hpcsci resume`", f"give {again}")
        return type(error)(said.replace("`hpcsci resume`", again))
    goes_on = paths.campaign.exists() and again not in said
    return type(error)(f"{said} (then {again} goes on)" if goes_on else said)
