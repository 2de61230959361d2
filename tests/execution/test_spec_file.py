"""A worker runs what a driver of its own campaign wrote, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from trialkit import CAMPAIGN, Bench

from hpcscientist.execution import folders
from hpcscientist.files import vault
from hpcscientist.files.rundir import TrialPaths
from hpcscientist.files.trusted import TrustedCopy
from hpcscientist.records.trial import TrialSpec
from hpcscientist.worker.entry import run_trial


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(vault.ROOT_VARIABLE, str(tmp_path / "root"))
    vault.make_campaign_key(CAMPAIGN)
    yield
    vault.forget_campaign_key(CAMPAIGN)


@pytest.fixture
def written(tmp_path: Path, key: None) -> tuple[TrialPaths, TrialSpec]:
    bench = Bench(tmp_path).prepare()
    spec, paths = bench.trial("predict()"), bench.run.trial("trial-1")
    folders.write_spec(paths, spec)
    return paths, spec


def test_it_is_read_as_it_was_written(written: tuple[TrialPaths, TrialSpec]) -> None:
    paths, spec = written
    read = folders.read_spec(paths)
    assert read.model_copy(update={"seal": ""}) == spec
    assert len(read.seal) == 64


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 8},
        {"seal": ""},
        {"run": 2},
        {"sources": {"scorer_hash": "0" * 64}},
        {"provenance": {"code_hash": "0" * 64}},
    ],
)
def test_what_another_hand_changed_is_not_run(
    change: dict[str, object], written: tuple[TrialPaths, TrialSpec]
) -> None:
    paths, _ = written
    content = json.loads(paths.spec.read_bytes())
    for name, value in change.items():
        content[name] = content[name] | value if isinstance(value, dict) else value
    paths.spec.write_text(json.dumps(content))
    with pytest.raises(folders.UnsignedSpec):
        folders.read_spec(paths)
    with pytest.raises(SystemExit, match=f"{paths.spec}: .*driver"):
        run_trial(str(paths.root), content["run"])
    assert not paths.worker.exists(), "it would be held for a lost worker"


def test_other_blanks_are_the_same_words(written: tuple[TrialPaths, TrialSpec]) -> None:
    paths, _ = written
    content = json.loads(paths.spec.read_bytes())
    paths.spec.write_text(json.dumps(dict(reversed(content.items()))))
    folders.read_spec(paths)


def test_a_spec_of_a_campaign_without_a_key_is_none_of_this_run_directory(
    written: tuple[TrialPaths, TrialSpec],
) -> None:
    paths, spec = written
    source = spec.provenance.model_copy(update={"campaign_id": "nobody's"})
    folders.write_spec(paths, spec.model_copy(update={"provenance": source}))
    folders.read_spec(paths)  # nobody knows better
    copy = TrustedCopy.of(paths.root.parent.parent, CAMPAIGN)
    copy.make(paths.root.parent.parent)
    copy.campaign.touch()
    with pytest.raises(folders.UnsignedSpec, match="another campaign"):
        folders.read_spec(paths)
