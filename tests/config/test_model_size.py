"""How much of the loop is left to small models."""

import pytest

from hpcscientist.config.model_size import billions, fitted
from hpcscientist.config.settings import AuthoringSettings, Settings


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("vllm:/models/qwen2.5-coder-1.5b", 1.5),
        ("http://host:8000/v1#Qwen/Qwen2.5-7B-Instruct", 7.0),
        ("http://host/v1#SmolLM2-135M-Instruct", 0.135),
        ("http://host/v1#Qwen3-30B-A3B", 30.0),
        ("http://host/v1#llama-8bit", None),
        ("http://host-3b/v1#gpt-oss", None),
        ("playbook", None),
    ],
)
def test_a_name_says_how_large_a_model_is(name: str, size: float | None) -> None:
    assert billions(name) == size


def test_a_small_coder_writes_by_parts_and_without_a_plan() -> None:
    found, said = fitted(Settings(), {"code": "vllm:/m/small-1.5b", "review": "vllm:/m/big-70b"})
    assert (found.authoring.plan, found.authoring.edits) == (False, "parts")
    assert found.authoring.advice_rounds == Settings().authoring.advice_rounds
    assert "authoring.plan" in said
    # A small model may think, too, and its thinking counts.
    assert (found.code, found.ideation, found.review) == (
        Settings().code,
        Settings().ideation,
        Settings().review,
    )


def test_what_was_set_stays() -> None:
    mine = Settings(authoring=AuthoringSettings(edits="unit"))
    found, said = fitted(mine, {"code": "http://h/v1#tiny-1b"})
    assert found.authoring.edits == "unit"
    assert not found.authoring.plan
    assert "authoring.edits" not in said


def test_settings_as_a_launch_reads_them_are_fitted_too() -> None:
    """All of their keys are set, be it to the default."""
    read = Settings.model_validate(Settings().model_dump())
    found, said = fitted(read, dict.fromkeys(("ideation", "code", "review"), "vllm:/m/tiny-1b"))
    assert (found.proposing.reflections, found.authoring.advice_rounds) == (0, 0)
    assert "proposing.reflections" in said


@pytest.mark.parametrize(("size", "plan"), [("large", True), ("small", False), ("auto", True)])
def test_the_setting_goes_before_the_name(size: str, plan: bool) -> None:
    settings = Settings.model_validate({"model_size": size})
    found, said = fitted(settings, {"code": "playbook"})
    assert found.authoring.plan is plan
    assert (said == "") is plan
