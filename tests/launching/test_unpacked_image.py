from __future__ import annotations

from pathlib import Path

import pytest
from bench_campaign import CampaignBench

from hpcscientist.campaign.agents import Session
from hpcscientist.errors import RunDirectoryError
from hpcscientist.files import vault
from hpcscientist.files.hashing import hash_image, hash_tree
from hpcscientist.history import frozen
from hpcscientist.history.journal import Journal
from hpcscientist.launching.wiring import wire
from hpcscientist.records.trial import Isolation, Split


def test_labels_that_were_changed_since_launch_are_refused_in_a_sandbox_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPCSCI_PATHS_PRIVATE", str(tmp_path / "sealed"))
    bench = CampaignBench(tmp_path, ideas=1)
    labels = {split: vault.path_of(f"topic-1/{split}") for split in Split}
    for split, folder in labels.items():
        folder.mkdir(parents=True)
        (folder / "labels.csv").write_text(f"1,{split}")
    hashes = ["0" * 16, *(hash_tree(folder)[:16] for folder in labels.values())]
    config = bench.config.model_copy(
        update={
            "recipe_hash": hash_tree(bench.paths.recipe),
            "data_hash": "-".join(hashes),
            "labels": {split: vault.key_of(folder) for split, folder in labels.items()},
            "model_spec": "search",
            "isolation": Isolation.APPTAINER,
        }
    )
    frozen.write(bench.paths, config)
    vault.make_campaign_key(config.campaign_id)
    session = Session(bench.paths, Journal(bench.paths.journal, bench.state.apply), bench.state, 1)
    wire(session)
    (labels[Split.TEST] / "labels.csv").write_text("1,other")
    with pytest.raises(RunDirectoryError, match=r"labels .*changed .*; restore .*topic-1/test"):
        wire(session)
    session.journal.close()


def test_an_unpacked_image_that_was_changed_since_launch_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPCSCI_PATHS_PRIVATE", str(tmp_path / "sealed"))
    image = tmp_path / "image"
    (image / "bin").mkdir(parents=True)
    (image / "bin" / "python3").write_text("the one that was recorded")
    bench = CampaignBench(tmp_path, ideas=1)
    config = bench.config.model_copy(
        update={
            "recipe_hash": hash_tree(bench.paths.recipe),
            "labels": {},
            "model_spec": "search",
            "isolation": Isolation.APPTAINER,
            "image": str(image),
            "image_hash": hash_image(image),
        }
    )
    frozen.write(bench.paths, config)
    vault.make_campaign_key(config.campaign_id)
    session = Session(bench.paths, Journal(bench.paths.journal, bench.state.apply), bench.state, 1)
    wire(session)
    (image / "bin" / "python3").write_text("another")
    with pytest.raises(RunDirectoryError, match=rf"^{image}: .*changed .*; restore "):
        wire(session)
    session.journal.close()
