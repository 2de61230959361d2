"""A generator of hostile inputs: each outcome is success, or one line with exit code 2 or 1.

A few examples, the same each time, decide on a landing; 2,000 are `full`. What they found is given
as an example of its own, which decides too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from odd_campaigns import scripted
from odd_changes import Change, Instead, Odd
from odd_configurations import Configuration, configurations, try_configuration
from odd_playbooks import Playbook, playbooks, try_playbook
from odd_recipes import RECIPES, try_recipe
from odd_servers import OddServer, Server, running, servers, try_server

FULL = 500  # examples of each of the four kinds
FEW = 25


def examples(number: int) -> Callable[[Any], Any]:
    odd = (HealthCheck.too_slow, HealthCheck.data_too_large)
    phases = (Phase.explicit, Phase.generate, Phase.shrink)
    return settings(max_examples=number, suppress_health_check=odd, database=None, phases=phases)


@pytest.fixture(scope="module", autouse=True)
def _scripted() -> Iterator[None]:
    with scripted():
        yield


@pytest.fixture(scope="module")
def server() -> Iterator[OddServer]:
    with running() as answering:
        yield answering


# -- a few, which decide on a landing


@given(changed=RECIPES)
@example(changed=(Odd("playbook.jsonl", "a folder"),))  # a search did not look at it
@example(changed=(Odd("\u202ex", "a device"),))  # `check` wrote the name as it is
@example(changed=(Instead("prepare.py", "SIZES =", f"X = {'-' * 9_000}1\nSIZES ="),))
@example(changed=(Instead("prepare.py", "SIZES =", f"X = {'1 + ' * 9_000}1\nSIZES ="),))
@example(changed=(Instead("recipe.toml", "version", "a" + ".a" * 3_000),))
@examples(FEW)
def test_recipes(changed: tuple[Change, ...]) -> None:
    try_recipe(changed, launched=False)


@given(case=configurations())
@example(case=Configuration(odd=(("hpcsci.toml", "huge"),)))
@example(case=Configuration(odd=(("site.toml", "huge"),)))
@example(case=Configuration(options=(("recipe", "~nobody-of-this-name/x"),)))
@example(case=Configuration(options=(("site", "~nobody-of-this-name/x"),)))
@example(case=Configuration(options=(("image", "~nobody-of-this-name/x"),)))
@example(case=Configuration(options=(("library", "~nobody-of-this-name/x"),)))
@example(case=Configuration(files=(("hpcsci.toml", "a" + ".a" * 3_000 + " = 1\n"),)))
@example(case=Configuration(files=(("hpcsci.toml", 'loop.bank = ["circle"]\n'),)))
@examples(FEW)
def test_configurations(case: Configuration, server: OddServer) -> None:
    try_configuration(case, server, launched=False)


@pytest.mark.parametrize("key", ["paths.data", "paths.private"])
def test_data_in_a_link_to_itself(key: str, server: OddServer) -> None:
    case = Configuration(files=(("hpcsci.toml", f'{key} = "circle"\n'),))
    try_configuration(case, server, launched=True)


@given(case=playbooks())
@examples(3)
def test_playbooks(case: Playbook) -> None:
    try_playbook(case)


@given(case=servers())
@examples(3)
def test_servers(case: Server, server: OddServer) -> None:
    try_server(case, server)


# -- 2,000 examples


@pytest.mark.full
@pytest.mark.timeout(3600)
@given(changed=RECIPES)
@examples(FULL)
def test_many_recipes(changed: tuple[Change, ...]) -> None:
    try_recipe(changed, launched=True)


@pytest.mark.full
@pytest.mark.timeout(3600)
@given(case=configurations())
@examples(FULL)
def test_many_configurations(case: Configuration, server: OddServer) -> None:
    try_configuration(case, server, launched=True)


@pytest.mark.full
@pytest.mark.timeout(3600)
@given(case=playbooks())
@examples(FULL)
def test_many_playbooks(case: Playbook) -> None:
    try_playbook(case)


@pytest.mark.full
@pytest.mark.timeout(3600)
@given(case=servers())
@examples(FULL)
def test_many_servers(case: Server, server: OddServer) -> None:
    try_server(case, server)
