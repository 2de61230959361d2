"""Which optional stages a campaign has."""

from __future__ import annotations

from hpcscientist.campaign.stages import applied
from hpcscientist.config.settings import Settings
from hpcscientist.models.open import ROLES


def test_all_of_them_where_there_is_a_library() -> None:
    assert applied(Settings(), True, {}) == (
        *("survey", "directions", "reflect", "novelty", "feasibility", "concepts"),
        *("plan", "advise", "analyse"),
    )


def test_what_needs_a_library_is_left_out_without_one() -> None:
    left = ("directions", "reflect", "feasibility", "plan", "advise", "analyse")
    assert applied(Settings(), False, {}) == left


def test_the_configuration_leaves_out_what_it_names() -> None:
    none = {
        "literature": {"survey": False, "concepts": 0},
        "proposing": {"batch": 1, "reflections": 0, "novelty_rounds": 0, "feasibility": False},
        "authoring": {"plan": False, "advice_rounds": 0, "further_runs": 0},
    }
    assert applied(Settings.model_validate(none), True, {}) == ()


def test_a_playbook_replays_what_it_holds() -> None:
    recorded = frozenset({"propose", "code", "reflect", "feasibility"})
    assert applied(Settings(), True, dict.fromkeys(ROLES, recorded)) == ("reflect", "feasibility")


def test_a_role_with_a_model_of_its_own_can_answer_anything() -> None:
    recorded = {"ideation": frozenset({"propose"})}
    found = applied(Settings(), True, recorded)
    after = ("plan", "advise", "analyse")
    assert found == ("survey", "novelty", "feasibility", "concepts", *after)
