"""What a launch may cost, before anything is run."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from bench_campaign import CampaignBench

from hpcscientist.authoring.coder import ModelAuthor
from hpcscientist.campaign import stages
from hpcscientist.config.settings import Settings
from hpcscientist.launching import launch
from hpcscientist.launching.costs import estimate as costs
from hpcscientist.launching.costs.weighing import mean_shown, weigh
from hpcscientist.launching.launch_plan import LaunchPlan
from hpcscientist.launching.sites.cluster import Cluster
from hpcscientist.models.answers import estimate_tokens
from hpcscientist.models.stage import Calls, Expected
from hpcscientist.ports import Model
from hpcscientist.records.authoring import Brief, FixTask, GaveUp
from hpcscientist.records.idea import Idea, Proposal
from hpcscientist.records.model_calls import ModelReply, ModelRequest
from hpcscientist.records.site import ControllerSite
from hpcscientist.records.trial import IdeaFailed, IdeaFailure

PROPOSAL = Proposal(title="t", hypothesis="h", method="m", experiment_plan="p", summary="s")
IDEA = Idea(idea_id="idea-0001", number=1, round=1, proposal=PROPOSAL, model="m", seed=1)


def checked_of(folder: Path, **given: object) -> LaunchPlan:
    settings = Settings.model_validate(
        {"backend": "local", "model": "search", "run_dir": "run", "local": {"slots": 2}, **given}
    )
    return launch.check(settings, folder)


def asking(checked: LaunchPlan, spec: str = "http://127.0.0.1:9/v1#m") -> LaunchPlan:
    """The same launch with a model that would be asked; nothing is."""
    return replace(checked, model_spec=spec)


def in_job(checked: LaunchPlan, nodes: int, gpus: int, minutes: int = 90) -> LaunchPlan:
    controller = ControllerSite(gpus=gpus, minutes=minutes, max_links=7)
    site = checked.placement.site.model_copy(update={"controller": controller})
    where = Cluster("for a test", site)
    settings = checked.settings.model_copy(update={"nodes": nodes})
    return replace(checked, settings=settings, placement=replace(checked.placement, where=where))


def test_experiments_of_the_control_arm(tmp_path: Path) -> None:
    found = costs.estimate(checked_of(tmp_path, ideas=10))
    # A pilot and five seeds of the baseline and each idea, and the baseline once more for ten; two
    # improvements of ten are confirmed, and ten at most.
    searched = 11 * 15 + (5 + 10 * 5 + 1) * 20
    assert found.trials == (67, 67 + 3 * 5)
    assert found.trials_at_most == 67 + 11 * 5
    assert found.cpu_hours == pytest.approx((searched + 15 * 20) / 3600)
    assert found.cpu_hours_at_most == pytest.approx((searched + 55 * 20) / 3600)
    assert found.gpu_hours_at_most == 0
    assert found.roles == ()
    assert found.allocation is None


def test_confirmations_count_as_the_settings_say(tmp_path: Path) -> None:
    more = costs.estimate(checked_of(tmp_path, ideas=10, loop={"confirm_seeds": 9}))
    assert more.trials == (67, 67 + 3 * 9)
    assert more.trials_at_most == 67 + 11 * 9
    none = costs.estimate(checked_of(tmp_path, ideas=10, loop={"confirm": False}))
    assert none.trials == (67, 67)
    assert none.trials_at_most == 67
    assert none.cpu_hours == none.cpu_hours_at_most


@pytest.mark.parametrize(
    ("ideas", "every", "reruns"), [(9, 10, 0), (29, 10, 2), (10, 3, 3), (10, 0, 0)]
)
def test_reruns_of_the_baseline_count(tmp_path: Path, ideas: int, every: int, reruns: int) -> None:
    loop = {"confirm": False, "drift_every": every}
    found = costs.estimate(checked_of(tmp_path, ideas=ideas, loop=loop))
    trials = 6 + 6 * ideas + reruns
    assert (found.trials, found.trials_at_most) == ((trials, trials), trials)


def test_experiments_that_a_model_may_fix(tmp_path: Path) -> None:
    checked = asking(checked_of(tmp_path, ideas=10, loop={"debug_rounds": 2, "confirm": False}))
    found = costs.estimate(checked)
    assert found.trials == (67, 77)
    assert found.trials_at_most == 7 + 10 * 3 * 6
    assert found.cpu_hours == pytest.approx((21 * 15 + 56 * 20) / 3600)
    assert found.cpu_hours_at_most == pytest.approx((31 * 15 + (6 + 150) * 20) / 3600)


def test_experiments_that_are_reviewed_and_followed_up(tmp_path: Path) -> None:
    checked = asking(checked_of(tmp_path, ideas=10, loop={"debug_rounds": 2, "confirm": False}))
    found = costs.estimate(replace(checked, steps=("advise", "analyse")))
    # Guess: a repair, a completion and two further runs; the latter have all seeds too.
    assert found.trials == (67, 7 + 10 * (1 + 1 + 1 + 5) + 10 * 2 * 6)
    # Bound: two completions; five further runs, each fixed twice.
    assert found.trials_at_most == 7 + 10 * (3 + 2 + 5 * 3) * 6
    ungated = checked.settings.model_copy(
        update={"authoring": checked.settings.authoring.model_copy(update={"hopeless": 0.0})}
    )
    assert costs.estimate(replace(checked, settings=ungated)).trials == (66, 76)


def test_resources_of_the_recipe_count(tmp_path: Path) -> None:
    checked = checked_of(tmp_path, ideas=10)
    resources = checked.recipe.spec.resources.model_copy(update={"cpus": 4, "gpus": 2})
    spec = checked.recipe.spec.model_copy(update={"resources": resources})
    wide = costs.estimate(replace(checked, recipe=replace(checked.recipe, spec=spec)))
    narrow = costs.estimate(checked)
    assert wide.cpu_hours_at_most == pytest.approx(4 * narrow.cpu_hours_at_most)
    assert wide.gpu_hours_at_most == pytest.approx(2 * narrow.cpu_hours_at_most)


def test_tokens_are_bounded_by_what_a_reply_may_have(tmp_path: Path) -> None:
    given = {"ideation": {"max_tokens": 100}, "code": {"max_tokens": 1000}}
    checked = asking(checked_of(tmp_path, ideas=10, loop={"debug_rounds": 2}, **given))
    ideation, code = costs.estimate(checked).roles
    assert (ideation.role, ideation.calls, ideation.calls_at_most) == ("ideation", 10, 60)
    assert (ideation.completion, ideation.completion_at_most) == (1000, 6000)
    assert (code.role, code.calls, code.calls_at_most) == ("code", 30, 10 * (15 + 2 * 15 + 2 * 3))
    assert code.completion_at_most == code.calls_at_most * 1000
    weights = weigh(checked.recipe, checked.settings)
    assert ideation.prompt == 10 * weights["propose"]
    assert code.prompt == 10 * (weights["code"] + weights["debug"] + weights["structure"])


def test_ideas_of_the_control_arm_cost_no_tokens(tmp_path: Path) -> None:
    checked = asking(checked_of(tmp_path, ideas=12))
    fewer = asking(checked_of(tmp_path, ideas=9))
    shared = replace(checked, settings=checked.settings.model_copy(update={"control": 0.25}))
    for own, other in zip(costs.estimate(shared).roles, costs.estimate(fewer).roles, strict=True):
        assert (own.role, own.calls, own.calls_at_most) == (
            other.role,
            other.calls,
            other.calls_at_most,
        )
        assert own.prompt >= other.prompt  # what the control arm found is told too
    assert costs.estimate(shared).trials == costs.estimate(checked).trials


def test_only_roles_that_ask_a_model_cost_tokens(tmp_path: Path) -> None:
    checked = checked_of(tmp_path, ideas=2, code={"model": "http://127.0.0.1:9/v1#coder"})
    assert costs.estimate(replace(checked, model_spec="search")).roles == ()
    recorded = replace(checked, model_spec="playbook")
    assert [role.role for role in costs.estimate(recorded).roles] == ["code"]


class Useless:
    """Counts its calls; a reply is of the right form at the last try alone, and of no use."""

    name = "useless"

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    async def probe(self) -> None:
        return None

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.calls[request.stage] += 1
        useless = '{"note": "n", "diagnosis": "d", "edits": []}'
        field = "diagnosis" if request.stage == "code" else "note"
        fitting = useless.replace(f'"{field}": "{field[0]}", ', "")
        edits = '[{"file": "/etc/passwd", "search": null, "replace": "x"}]'
        fitting = fitting.replace("[]", edits)
        text = fitting if request.repair == 2 else "no JSON"
        return ModelReply(
            text=text,
            model=self.name,
            prompt_tokens=1,
            completion_tokens=1,
            tokens_estimated=False,
            latency_s=0.0,
        )

    async def close(self) -> None:
        return None


async def test_the_bound_of_calls_is_what_the_author_does(tmp_path: Path) -> None:
    """The worst of models is asked as often as the estimate says, and no more."""
    recipe = CampaignBench(tmp_path, ideas=1).recipe
    model = Useless()
    asked: Model = model
    author = ModelAuthor(asked, recipe)
    assert isinstance(await author.write(Brief(idea=IDEA)), GaveUp)
    outcome = IdeaFailed(failure=IdeaFailure.ERROR, detail="d")
    task = FixTask(
        idea=IDEA, files=recipe.reference, outcome=outcome, log_tail="", round=1, rounds=1
    )
    assert isinstance(await author.fix(task), GaveUp)
    assert model.calls == {"code": 15, "debug": 15}


ALL: tuple[str, ...] = (
    *("survey", "directions", "reflect", "novelty", "feasibility", "concepts"),
    *("plan", "advise", "analyse"),
)


def asked_of(checked: LaunchPlan) -> dict[str, Calls]:
    found = costs.calls(Expected(checked.settings, checked.steps, checked.versions))
    return {entry.kind: entry for entry in found}


def test_every_step_costs_calls_of_its_role(tmp_path: Path) -> None:
    plain = asking(checked_of(tmp_path, ideas=12, rounds=2, proposing={"batch": 4}))
    checked = replace(plain, steps=ALL)
    ideation, code, review = costs.estimate(checked).roles
    kinds = stages.kinds()
    asked = asked_of(checked)
    plain_kinds = {kind for kind in kinds if not kind.endswith("-part")}  # small models' alone
    assert set(asked) == plain_kinds - {"improve"}  # a tree alone asks for that
    assert asked["directions"].guess == 4  # two rounds of six, in batches of four and two
    assert asked["rank"].guess == checked.settings.literature.papers
    assert asked["reflect"].guess == 36
    assert asked["profile"].guess == 12 * checked.settings.literature.concepts
    assert ideation.calls == 12 + 4 + 36 + 2
    assert review.calls_at_most == sum(
        e.most for e in asked.values() if kinds[e.kind].role == "review"
    )
    own = ("plan", "code", "debug", "structure", "complete", "extend")
    assert code.calls == sum(asked[stage].guess for stage in own)
    assert code.calls_at_most == sum(asked[stage].most for stage in own)
    weights = weigh(checked.recipe, checked.settings, ALL)
    assert set(weights) == plain_kinds - {"improve"}
    assert review.prompt == sum(
        e.guess * weights[s] for s, e in asked.items() if kinds[e.kind].role == "review"
    )


def test_code_by_parts_costs_calls_for_these_too(tmp_path: Path) -> None:
    checked = replace(asking(checked_of(tmp_path, ideas=12)), steps=ALL)
    authoring = checked.settings.authoring.model_copy(update={"edits": "parts"})
    settings = checked.settings.model_copy(update={"authoring": authoring})
    before, after = costs.estimate(checked), costs.estimate(replace(checked, settings=settings))
    assert after.roles[1].calls > before.roles[1].calls
    weights = weigh(checked.recipe, settings, ALL)
    assert 0 < weights["code-part"] < weights["code"]


TREE = {"search": "tree", "drafts": 3, "nodes": 11, "debug_share": 0.25}


class TestTree:
    def test_versions_that_another_is_better_than_have_pilots_alone(self, tmp_path: Path) -> None:
        given = {"loop": {"debug_rounds": 2, "confirm": False, "drift_every": 0}}
        checked = asking(checked_of(tmp_path, ideas=10, authoring=TREE, **given))
        found = costs.estimate(checked)
        # Guess: all eleven are piloted, and one has every seed. At least: one is, and it works.
        assert found.trials == (6 + 10 * 6, 6 + 10 * (11 + 5))
        # Bound: ten have a pilot; the best has all seeds, and so have two repairs of it.
        assert found.trials_at_most == 6 + 10 * (10 + 3 * 6)
        assert found.cpu_hours_at_most == pytest.approx((1 + 10 * 13) * 15 / 3600 + 155 * 20 / 3600)

    def test_ablations_of_a_plan_count_where_no_analyst_asks(self, tmp_path: Path) -> None:
        given = {"loop": {"debug_rounds": 2, "confirm": False, "drift_every": 0}}
        authoring = TREE | {"further_runs": 4}
        checked = asking(checked_of(tmp_path, ideas=10, authoring=authoring, **given))
        alone = costs.estimate(checked)
        planned = costs.estimate(replace(checked, steps=("plan",)))
        assert planned.trials[1] - alone.trials[1] == 10 * 2 * 6
        assert planned.trials_at_most - alone.trials_at_most == 10 * 4 * 3 * 6
        asked = asked_of(replace(checked, steps=("plan",)))
        assert (asked["extend"].guess, asked["extend"].most) == (20, 10 * 4 * 3 * 5)

    def test_every_version_costs_calls(self, tmp_path: Path) -> None:
        checked = asking(checked_of(tmp_path, ideas=10, authoring=TREE, loop={"debug_rounds": 2}))
        asked = {kind: (e.guess, e.most) for kind, e in asked_of(checked).items()}
        # Three first versions; of the other eight a quarter are repairs.
        assert asked["code"] == (30, 30 * 15)
        assert asked["improve"] == (60, 10 * 10 * 15)
        assert asked["debug"] == (20, 10 * (10 + 2) * 15)
        assert asked["structure"] == (20, 10 * (10 + 2) * 3)
        (_, code) = costs.estimate(checked).roles
        weights = weigh(checked.recipe, checked.settings)
        assert code.calls == 30 + 60 + 20 + 20
        assert code.prompt == 10 * (
            3 * weights["code"] + 6 * weights["improve"]
            + 2 * weights["debug"] + 2 * weights["structure"]
        )  # fmt: skip

    def test_drafts_of_a_served_model_count_each(self, tmp_path: Path) -> None:
        checked = asking(checked_of(tmp_path, ideas=10))
        settings, most = checked.settings, {}
        for spec, samples in (("http://h/v1#m", 0), ("http://h/v1#m", 2), ("vllm:m", 0)):
            authoring = settings.authoring.model_copy(update={"samples": samples})
            given = settings.model_copy(update={"model": spec, "authoring": authoring})
            most[spec, samples] = asked_of(replace(checked, settings=given))["code"].most
        assert list(most.values()) == [10 * 3 * replies for replies in (5, 6, 8)]

    def test_the_control_arm_has_none(self, tmp_path: Path) -> None:
        loop = {"confirm": False, "drift_every": 0}
        found = costs.estimate(checked_of(tmp_path, ideas=10, authoring=TREE, loop=loop))
        assert found.trials == (66, 66)
        assert found.trials_at_most == 66

    def test_a_small_tree_is_bounded_by_its_nodes(self, tmp_path: Path) -> None:
        small = TREE | {"nodes": 2}
        checked = asking(checked_of(tmp_path, ideas=1, authoring=small))
        asked = {kind: entry.guess for kind, entry in asked_of(checked).items()}
        assert (asked["code"], asked["improve"]) == (2, 0)


class TestPrompts:
    def test_they_are_the_real_ones(self, tmp_path: Path) -> None:
        checked = checked_of(tmp_path, ideas=1)
        weights = weigh(checked.recipe, checked.settings)
        reference = estimate_tokens("".join(checked.recipe.reference.values()))
        assert set(weights) == {"propose", "code", "debug", "structure"}
        assert min(weights.values()) > reference

    def test_a_proposals_prompt_grows_with_the_campaign_up_to_a_bound(self, tmp_path: Path) -> None:
        recipe = checked_of(tmp_path).recipe
        weights = [weigh(recipe, Settings(ideas=n)) for n in (1, 40, 10_000, 1_000_000)]
        first, second, third, fourth = (found["propose"] for found in weights)
        assert first < second < third
        assert fourth - third < third - second
        assert len({found["code"] for found in weights}) == 1

    @pytest.mark.parametrize(("ideas", "most"), [(1, 5), (7, 5), (5, 5), (30, 4), (3, 0)])
    def test_mean_of_what_is_shown(self, ideas: int, most: int) -> None:
        counted = [min(before, most) for before in range(ideas)]
        assert mean_shown(ideas, most) == pytest.approx(sum(counted) / ideas)


class TestAllocation:
    def test_of_one_job(self, tmp_path: Path) -> None:
        found = costs.estimate(in_job(checked_of(tmp_path, ideas=10), 4, 2)).allocation
        assert found is not None
        # It holds one node, for it serves nothing.
        assert (found.nodes, found.gpus, found.jobs_at_most) == (1, 2, 7)
        assert found.node_hours == pytest.approx(1.5)
        assert found.gpu_hours == pytest.approx(3)
        assert not found.served
        assert found.trial_hours == pytest.approx((11 * 15 + (56 + 15) * 20) / 2 / 3600)
        assert found.pace_node_hours == pytest.approx(found.trial_hours)
        assert found.pace_gpu_hours == pytest.approx(2 * found.pace_node_hours)

    @pytest.mark.parametrize("role", ["ideation", "code"])
    def test_served_for_one_role_alone(self, role: str, tmp_path: Path) -> None:
        checked = checked_of(tmp_path, **{role: {"model": "vllm:/weights"}})
        found = costs.estimate(in_job(asking(checked), 4, 1)).allocation
        assert found is not None
        assert (found.served, found.nodes) == (True, 4)


class TestIdle:
    @pytest.mark.parametrize(
        ("spec", "nodes", "gpus", "said"),
        [
            ("vllm:/w", 4, 2, "4 x 2 GPUs serve .*wait .*elsewhere"),
            ("vllm:/w", 2, 0, "2 nodes serve .*wait .*elsewhere"),
            ("playbook", 3, 4, "1 x 4 GPUs: no model"),
        ],
    )
    def test_says_what_waits(
        self, spec: str, nodes: int, gpus: int, said: str, tmp_path: Path
    ) -> None:
        assert re.match(said, costs.idle(in_job(asking(checked_of(tmp_path), spec), nodes, gpus)))

    def test_nothing_to_say(self, tmp_path: Path) -> None:
        checked = checked_of(tmp_path)
        assert costs.idle(checked) == ""
        assert costs.idle(in_job(checked, 1, 0)) == ""
        assert costs.idle(in_job(checked, 3, 0)) == ""

    def test_trials_inside(self, tmp_path: Path) -> None:
        checked = asking(checked_of(tmp_path), "vllm:/w")
        serving = checked.settings.serving.model_copy(update={"trials_inside": True})
        checked = replace(
            checked, settings=checked.settings.model_copy(update={"serving": serving})
        )
        assert "; trials run" in costs.idle(in_job(checked, 2, 2))
        alone = asking(checked, "playbook")
        assert re.match("2 x 2 GPUs: no model .*, trials run", costs.idle(in_job(alone, 2, 2)))
