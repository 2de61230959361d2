"""No campaign chooses, and no writer revises, by what a reviewer says."""

from __future__ import annotations

from typing import Any

import pytest

SIBLINGS = ("papers", "report", "reproduction")
BELOW = (
    "launching", "campaign", "conduct", "judgement", "worker", "literature", "ideation",
    "authoring", "execution", "results", "feedback", "history", "models", "recipe", "views",
)  # fmt: skip


@pytest.fixture(scope="module")
def house() -> Any:
    grimp = pytest.importorskip("grimp", reason="comes with import-linter")
    return grimp.build_graph("hpcscientist", cache_dir=None)


@pytest.mark.parametrize("room", [*BELOW, *SIBLINGS])
def test_nothing_that_makes_ideas_or_papers_knows_of_reviews(room: str, house: Any) -> None:
    """Imports within functions count, and so do those by way of others."""
    package = f"hpcscientist.{room}"
    assert house.find_descendants(package) | {package}
    chains = house.find_shortest_chains(package, "hpcscientist.reviews")
    assert chains == set()


@pytest.mark.parametrize("room", SIBLINGS)
def test_reviews_know_nothing_of_the_rooms_beside_them(room: str, house: Any) -> None:
    assert house.find_shortest_chains("hpcscientist.reviews", f"hpcscientist.{room}") == set()


def test_records_of_reviews_are_read_by_reviews_and_the_command_line_alone(house: Any) -> None:
    readers = house.find_modules_that_directly_import("hpcscientist.records.reviews")
    assert {name.split(".")[1] for name in readers} <= {"reviews", "cli", "bench"}
