"""Putting a bench of authoring together: the adapters are those of a campaign on one machine."""

from __future__ import annotations

import os
from dataclasses import dataclass

from benchmarks.authoring.outcomes import MODES, Mode, Written
from benchmarks.authoring.preparing import Prepared
from benchmarks.authoring.proposals import Proposals
from benchmarks.authoring.trying import Bench, Spent
from hpcscientist.authoring.coder import ModelAuthor
from hpcscientist.campaign.dispatcher import Dispatcher
from hpcscientist.campaign.integrity import FileIntegrity
from hpcscientist.campaign.pursuit.attempt_store import AttemptStore
from hpcscientist.campaign.specs import SpecFactory
from hpcscientist.campaign.trial_runner import TrialRunner
from hpcscientist.config.layers import KEY_VARIABLES
from hpcscientist.errors import UsageError
from hpcscientist.execution.backends.local import LocalBackend
from hpcscientist.files.lock import Lock
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.history.journal import Journal
from hpcscientist.history.state import CampaignState
from hpcscientist.ideation.propose import ModelProposer
from hpcscientist.models.open import open_models
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.models.role_client import Roles
from hpcscientist.ports import Tell
from hpcscientist.recipe.load import Recipe
from hpcscientist.records.events import ReplyRecorded
from hpcscientist.records.model_calls import ModelReply, ModelRequest
from hpcscientist.worker import MODULE as WORKER_MODULE


@dataclass(frozen=True, slots=True)
class Wired:
    """A bench with what must be closed after it."""

    bench: Bench
    journal: Journal
    backend: Dispatcher
    model: RecordedModel

    async def run(self, count: int) -> list[Written]:
        """Run it to its end; whatever ends it, nothing is left running."""
        try:
            return await self.bench.run(count)
        finally:
            await self.backend.close()
            await self.model.close()


def wire(
    prepared: Prepared, config: CampaignConfig, recipe: Recipe, lock: Lock, tell: Tell
) -> Wired:
    """Put a bench together in its folder. Raises RunDirectoryError, ModelSpecError."""
    paths, settings = prepared.paths, prepared.checked.settings
    state, spent = CampaignState(), Spent()
    roles = open_models(prepared.specs, recipe.playbook, settings)
    for variable in KEY_VARIABLES:
        os.environ.pop(variable, None)  # the clients have them; workers need not
    journal = Journal(paths.journal, state.apply, lambda: _check(prepared, lock))
    model = _recorded(roles, prepared, journal, spent)
    backend = Dispatcher(LocalBackend(paths, config.slots, WORKER_MODULE))
    trials = TrialRunner(
        paths=paths,
        journal=journal,
        state=state,
        backend=backend,
        generation=lock.generation,
        retries=settings.loop.machine_retries,
        pause_s=settings.loop.machine_pause_s,
    )
    specs = SpecFactory(config=config, recipe=recipe, paths=paths)
    bench = Bench(
        attempt_store=AttemptStore(
            paths, journal, state, specs, FileIntegrity.of(paths, journal, state, config)
        ),
        trials=trials,
        proposals=_proposals(prepared, model, roles, recipe, tell),
        authors={mode: _author(mode, prepared, model, roles, recipe) for mode in MODES},
        rounds=prepared.rounds,
        spent=spent,
        tell=tell,
    )
    return Wired(bench, journal, backend, model)


def _check(prepared: Prepared, lock: Lock) -> None:
    if lock.replaced():
        raise UsageError(
            f"{prepared.paths.root}: another bench took it over while this one stood still; "
            "wait for that one"
        )


def _recorded(roles: Roles, prepared: Prepared, journal: Journal, spent: Spent) -> RecordedModel:
    def on_reply(request: ModelRequest, reply: ModelReply, asked: int) -> None:
        spent.add(request, reply)
        journal.record(
            ReplyRecorded(
                idea_id=request.subject,
                call=request.key,
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=reply.completion_tokens,
                tokens_estimated=reply.tokens_estimated,
                latency_s=reply.latency_s,
                role=request.role,
                asked=asked,
            )
        )

    return RecordedModel(roles, prepared.paths, on_reply)


def _proposals(
    prepared: Prepared, model: RecordedModel, roles: Roles, recipe: Recipe, tell: Tell
) -> Proposals:
    settings = prepared.checked.settings
    window = roles.windows["ideation"]
    return Proposals(
        proposer=ModelProposer(model, recipe, settings.seed, settings.ideation, window),
        roles=roles,
        paths=prepared.paths,
        given=recipe.seed_ideas if prepared.seed_ideas else (),
        seed=settings.seed,
        shown=settings.loop.archive,
        tell=tell,
    )


def _author(
    mode: Mode, prepared: Prepared, model: RecordedModel, roles: Roles, recipe: Recipe
) -> ModelAuthor:
    settings = prepared.checked.settings
    authoring = settings.authoring.model_copy(update={"debugging": mode})
    return ModelAuthor(model, recipe, settings.code, roles.windows["code"], authoring)
