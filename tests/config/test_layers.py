from __future__ import annotations

from pathlib import Path

import pytest

from hpcscientist.config.layers import resolve
from hpcscientist.errors import ConfigError


def origins(
    folder: Path, environ: dict[str, str], **given: object
) -> dict[str, tuple[object, str]]:
    return {v.key: (v.value, v.origin) for v in resolve(given, environ, folder)[1]}


def test_each_layer_beats_the_one_below(tmp_path: Path) -> None:
    user = tmp_path / "user.toml"
    user.write_text("ideas = 2\nseed = 2\nrounds = 2\n[loop]\nq = 0.2\n")
    (tmp_path / "hpcsci.toml").write_text("seed = 3\nrounds = 3\n[loop]\nq = 0.3\n")
    environ = {"HPCSCI_CONFIG": str(user), "HPCSCI_ROUNDS": "4", "HPCSCI_LOOP_Q": "0.4"}
    settings, _ = resolve({"loop.q": 0.5, "model": None}, environ, tmp_path)
    assert (settings.ideas, settings.seed, settings.rounds, settings.loop.q) == (2, 3, 4, 0.5)
    found = origins(tmp_path, environ)
    assert found["ideas"] == (2, str(user))
    assert found["seed"] == (3, str(tmp_path / "hpcsci.toml"))
    assert found["loop.q"] == (0.4, "variable HPCSCI_LOOP_Q")
    assert found["recipe"] == ("digits", "default")


def test_users_file_is_found_by_xdg(tmp_path: Path) -> None:
    (tmp_path / "hpcscientist").mkdir()
    (tmp_path / "hpcscientist" / "config.toml").write_text("ideas = 9\n")
    settings, _ = resolve({}, {"XDG_CONFIG_HOME": str(tmp_path)}, tmp_path / "hpcscientist")
    assert settings.ideas == 9


def test_strings_in_variables_need_no_quotes(tmp_path: Path) -> None:
    settings, _ = resolve({}, {"HPCSCI_MODEL": "search", "HPCSCI_RUN_DIR": "7"}, tmp_path)
    assert (settings.model, settings.run_dir) == ("search", "7")


def test_whole_number_is_taken_for_a_float(tmp_path: Path) -> None:
    (tmp_path / "hpcsci.toml").write_text("[client]\ntimeout_s = 5\n")
    assert resolve({}, {}, tmp_path)[0].client.timeout_s == 5.0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("idaes = 3", "did you mean 'ideas'"),
        ("[loop]\nqq = 3", "did you mean 'loop.q'"),
        ("ideas = 'many'", "valid integer"),
        ("ideas = 0", "greater than or equal to 1"),
        ("ideas = true", "ideas"),
        ("[loop]\nq = 1.0", "loop.q"),
        ("loop = 3", "'loop'"),
        ("ideas = = 3", "cannot be read"),
    ],
)
def test_bad_file_is_refused_by_name(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "hpcsci.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        resolve({}, {}, tmp_path)
    assert says in str(caught.value)
    assert "hpcsci.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_variable_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="HPCSCI_IDEAS"):
        resolve({}, {"HPCSCI_IDAES": "3"}, tmp_path)


def test_option_is_named_as_it_was_typed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--ideas"):
        resolve({"ideas": -1}, {}, tmp_path)
