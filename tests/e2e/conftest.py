"""Fixtures of whole campaigns."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaigns import TinyCampaign
from controlled import Controlled
from served_campaign import TESTS, make, write_site
from slurm_kit import Cluster, engine_image, engine_python

sys.path.insert(0, str(Path(__file__).parent.parent / "execution"))  # its hostile candidates


@pytest.fixture
def controlled(cluster: Cluster, shared: Path) -> Iterator[Controlled]:
    campaign = Controlled(cluster, TinyCampaign.prepare(shared))
    campaign.write_site()
    yield campaign
    if campaign.tiny.paths.campaign.exists():
        campaign.hpcsci("cancel", "run")


@pytest.fixture(scope="module")
def engine() -> str:
    """An interpreter with vLLM and Ray that every node sees."""
    return engine_python()


@pytest.fixture(scope="module")
def image() -> str:
    """An image with the same engine that every node sees."""
    return engine_image()


@pytest.fixture(scope="module")
def random_model(cluster: Cluster, engine: str) -> Path:
    return make(cluster, [engine, TESTS / "tiny_models.py"])


@pytest.fixture(scope="module")
def trained_model(cluster: Cluster, engine: str) -> Path:
    return make(cluster, [engine, TESTS / "e2e" / "tiny_lessons.py"])


@pytest.fixture
def served(controlled: Controlled, engine: str) -> Iterator[Controlled]:
    """A campaign whose controller jobs can serve models."""
    write_site(controlled, engine)
    yield controlled
    controlled.cluster.run("scancel", "--me", cwd=controlled.folder)
