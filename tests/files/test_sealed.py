from __future__ import annotations

from pathlib import Path

import pytest

from hpcscientist.files import sealed


@pytest.fixture(autouse=True)
def own_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(sealed.ROOT_VARIABLE, str(tmp_path / "root"))
    return tmp_path / "root"


def test_a_folder_of_labels_is_found_by_its_key(own_root: Path) -> None:
    labels = own_root / "digits-abc" / "validation"
    assert sealed.key_of(labels) == "digits-abc/validation"
    assert sealed.path_of("digits-abc/validation") == labels


def test_key_is_secret_and_made_once(own_root: Path) -> None:
    assert sealed.campaign_key("c") is None
    sealed.make_campaign_key("c")
    key = sealed.campaign_key("c")
    assert key is not None
    assert len(key) == 64
    assert (own_root / "keys" / "c").stat().st_mode & 0o077 == 0
    with pytest.raises(FileExistsError):
        sealed.make_campaign_key("c")
    sealed.forget_campaign_key("c")
    assert sealed.campaign_key("c") is None


def test_two_campaigns_have_two_keys() -> None:
    sealed.make_campaign_key("a")
    sealed.make_campaign_key("b")
    assert sealed.campaign_key("a") != sealed.campaign_key("b")
