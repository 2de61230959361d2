"""`benchmarks makespan`: how well the loop overlaps thinking and experiments.

With a scripted model of fixed latency and trials of fixed length, the makespan of a
campaign stands beside its lower bound: the larger of the critical path and of the total
work over the slots that do it (`Script.bound`). Everything else is real: conductor, journal (on
the disk before anything is done about it), chat records, result files. What workers do at a trial's
end is done beside the driver, as it is elsewhere.
"""

from __future__ import annotations

import asyncio
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.scripted import ScriptedBackend, ScriptedModel, workers
from hpcscientist import __version__
from hpcscientist.bench.figure import Figure
from hpcscientist.campaign.agents import Session, model_agents
from hpcscientist.campaign.conductor import warm_up
from hpcscientist.campaign.dispatcher import Dispatcher
from hpcscientist.config.settings import Settings
from hpcscientist.files.hashing import package_hash
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.judgement.baseline_drift import reruns_at_most
from hpcscientist.launching.wiring import assemble
from hpcscientist.recipe.create import create
from hpcscientist.recipe.load import Recipe, load
from hpcscientist.records.trial import Budget, Isolation, Split

TARGETS = {8: 1.08, 32: 1.03}
"""The most that the ratio may be, from so many ideas on."""
COUNTS = {8: 3, 32: 3, 128: 1}
_PILOTS_TOO = 32  # ideas of which it is shown, too, what slots that are out of step cost
_TICK_S = 1e-3  # the lengths of a script's trials are multiples of it


@dataclass(frozen=True, slots=True)
class Script:
    """The fixed times in seconds, and the slots.

    Trials are short beside the campaign, and pilots take as long as the others, so that the last
    wave of trials, which no scheduler can fill, does not drown what is measured: where pilots took
    half as long, it would be chance whether slots end together.
    """

    latency_s: float = 0.25
    pilot_s: float = 0.5
    full_s: float = 0.5
    slots: int = 8

    def __post_init__(self) -> None:
        """Refuse what the bound cannot reckon with."""
        lengths = (self.pilot_s, self.full_s)
        if any(abs(s / _TICK_S - round(s / _TICK_S)) > 1e-6 for s in lengths) or max(lengths) <= 0:
            raise ValueError(f"trials of {lengths} s: give whole milliseconds, and not 0 of both")

    def bound(self, ideas: int, seeds: int, concurrency: int, reruns: int = 0) -> float:
        """The lower bound of the makespan, in seconds; no campaign is faster than any of these.

        Critical path: propose, code, pilot and full trials of one idea. Work: all trials over the
        slots, or all calls over the model's concurrency. Trials of ideas over the slots, once the
        first of them can be proposed and written: before, the reference alone has something to run.
        `reruns` of the reference go with ideas. Trials are whole: what one slot has to do is a
        multiple of what all their lengths are multiples of, and some slot has at least its share.
        """
        thought = 2 * self.latency_s
        reference = seeds * self.full_s + self.pilot_s
        own = ideas * (seeds * self.full_s + self.pilot_s) + reruns * self.full_s
        return max(
            thought + self.pilot_s + self.full_s,
            self._on_slots(reference + own),
            thought + self._on_slots(own),
            ideas * thought / concurrency,
        )

    def _on_slots(self, work_s: float) -> float:
        """Return in how many seconds whole trials can be done, at the least."""
        step = math.gcd(round(self.pilot_s / _TICK_S), round(self.full_s / _TICK_S))
        return math.ceil(round(work_s / _TICK_S) / self.slots / step) * step * _TICK_S


def figures(counts: Mapping[int, int] = COUNTS, script: Script | None = None) -> list[Figure]:
    """Run campaigns; `counts` says how many for each number of ideas. Medians."""
    script = script or Script()
    found = []
    for ideas, runs in counts.items():
        target = min((most for n, most in TARGETS.items() if n <= ideas), default=None)
        found.append(_figure(f"makespan, {ideas} ideas", ideas, runs, script, target))
        if ideas == _PILOTS_TOO:
            short = replace(script, pilot_s=script.pilot_s / 2)
            name = f"makespan, {ideas} ideas, pilots half as long"
            found.append(_figure(name, ideas, runs, short, None))
    return found


def _figure(name: str, ideas: int, runs: int, script: Script, target: float | None) -> Figure:
    taken = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="hpcsci-bench-") as folder:
            seconds, bound = asyncio.run(campaign(Path(folder), ideas, script))
        taken.append(seconds)
    seconds = statistics.median(taken)
    return Figure(
        name=name,
        value=seconds,
        unit="s",
        compared_with=f"lower bound {bound:.2f} s",
        ratio=seconds / bound,
        target=target,
        spread=max(taken) - min(taken),
        runs=runs,
    )


async def campaign(
    folder: Path,
    ideas: int,
    script: Script,
    meanwhile: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> tuple[float, float]:
    """Run one in `folder`/run; return its makespan in seconds, and the lower bound of that.

    `meanwhile` is entered for as long as the campaign runs: whoever measures something else too
    measures there.
    """
    recipe = load(create("bench", folder))
    paths = RunPaths(folder / "run")
    paths.trials.mkdir(parents=True)
    paths.recipe.symlink_to(recipe.folder)
    config = _config(recipe, ideas, script)
    state = CampaignState()
    journal = Journal(paths.journal, state.apply)
    session = Session(paths, journal, state, generation=1)
    package_hash()  # this and the next a driver does before it conducts, too
    warm_up()
    entry = recipe.spec.entry
    model = ScriptedModel(script.latency_s, entry, recipe.reference[entry])
    seconds: dict[str, float] = {Budget.PILOT: script.pilot_s, Budget.FULL: script.full_s}
    with workers() as processes:
        backend = Dispatcher(ScriptedBackend(paths, script.slots, seconds, processes))
        agents = model_agents(model, config, recipe, session)
        wired = assemble(config, recipe, session, agents, backend)
        with meanwhile():
            begin = time.perf_counter()
            await wired.conductor.run()
            taken = time.perf_counter() - begin
        await wired.close()
    journal.close()
    if state.count_ideas("scored") != ideas:
        raise RuntimeError(f"{state.count_ideas('scored')} of {ideas} ideas were scored")
    concurrency, reruns = config.settings.client.concurrency, reruns_at_most(config.settings)
    return taken, script.bound(ideas, recipe.spec.seeds, concurrency, reruns)


def _config(recipe: Recipe, ideas: int, script: Script) -> CampaignConfig:
    nowhere = {Split.VALIDATION: os.devnull, Split.TEST: os.devnull}
    return CampaignConfig(
        campaign_id="bench",
        created="",
        package_version=__version__,
        python=sys.executable,
        recipe_name=recipe.spec.name,
        recipe_origin=str(recipe.folder),
        recipe_hash=recipe.recipe_hash,
        data_hash="",
        views=nowhere,
        labels=nowhere,
        model_spec="scripted",
        model_name="scripted",
        isolation=Isolation.NONE,
        slots=script.slots,
        in_flight=2 * script.slots,
        lag=2 * script.slots,
        settings=Settings(ideas=ideas),
    )
