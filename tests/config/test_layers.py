from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from hpcscientist.config.layers import resolve
from hpcscientist.config.settings import RoleSettings
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
        ("idaes = 3", "mean 'ideas'"),
        ("[loop]\nqq = 3", r"mean 'loop\.q'"),
        ("ideas = 'many'", "valid integer"),
        ("ideas = 0", r"ideas: .*equal to 1\b"),
        ("ideas = true", "ideas"),
        ("[loop]\nq = 1.0", r"loop\.q"),
        ("loop = 3", "'loop'"),
        ("ideas = = 3", "read: "),
        ("[propose]\ntemperature = 1.0", r"unknown key 'propose\.temperature'"),
        ("[ideation]\ntop_p = 0", r"ideation\.top_p"),
        ("[code]\nmax_tokens = 0", r"code\.max_tokens"),
        ("[review]\ntemperatur = 1", r"mean 'review\.temperature'"),
        ("[embedding]\nbatch = 0", r"embedding\.batch"),
        ("[serving]\nmemory_fraction = 1.5", r"serving\.memory_fraction"),
        ("[serving]\ndtype = 'int3'", r"serving\.dtype"),
        ("[serving]\nengine = 3", r"serving\.engine"),
        ("[serving.engine]\nx = [1]", r"serving\.engine"),
        ("[ideation]\ntemperature = inf", r"ideation\.temperature: .*finite"),
        ("[client]\ntimeout_s = inf", r"client\.timeout_s: .*finite"),
        ("[authoring]\nhopeless = nan", r"authoring\.hopeless: .*finite"),
        (f"[loop]\ndebug_rounds = {10**30}", r"loop\.debug_rounds: .*at most"),
        (f"[client]\ntimeout_s = {10**400}", r"client\.timeout_s: .*at most"),
        ("[serving.engine]\nx = inf", r"serving\.engine: x: .*finite"),
        ('run_dir = "a\\u0000b"', "run_dir: .*NUL"),
        ('[loop]\nbank = ["a", "a\\u0000b"]', r"loop\.bank: .*NUL"),
        (f"ideas = {'9' * 5000}", "many digits"),
        (f"x = {'[' * 5000}{']' * 5000}", "too deeply"),
    ],
)
def test_bad_file_is_refused_by_name(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "hpcsci.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        resolve({}, {}, tmp_path)
    assert re.search(says, str(caught.value))
    assert "hpcsci.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_setting_that_there_is_no_longer_is_told_from_an_unknown_one(tmp_path: Path) -> None:
    (tmp_path / "hpcsci.toml").write_text('[serving]\nfan_out = "auto"\n')
    with pytest.raises(ConfigError, match=r"hpcsci\.toml: .*serving\.fan_out any more; remove"):
        resolve({}, {"XDG_CONFIG_HOME": str(tmp_path)}, tmp_path)


def test_unknown_variable_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="HPCSCI_IDEAS"):
        resolve({}, {"HPCSCI_IDAES": "3"}, tmp_path)


def test_option_is_named_as_it_was_typed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--ideas"):
        resolve({"ideas": -1}, {}, tmp_path)


def test_roles_differ_in_sampling_unless_configured(tmp_path: Path) -> None:
    settings, _ = resolve({}, {}, tmp_path)
    roles = (settings.ideation, settings.code, settings.review)
    assert [(r.model, r.temperature, r.top_p, r.max_tokens) for r in roles] == [
        ("", 1.0, None, 4096),
        ("", 0.2, None, 8192),
        ("", 0.2, None, 4096),
    ]


def test_one_value_of_a_role_leaves_its_others(tmp_path: Path) -> None:
    (tmp_path / "hpcsci.toml").write_text('[code]\nmodel = "vllm:/w/coder"\ntop_p = 1\n')
    settings, _ = resolve({}, {"HPCSCI_REVIEW_TEMPERATURE": "0"}, tmp_path)
    assert settings.code == RoleSettings(
        model="vllm:/w/coder", temperature=0.2, top_p=1.0, max_tokens=8192
    )
    assert settings.review == RoleSettings(temperature=0.0)
    assert settings.ideation == RoleSettings(temperature=1.0)


def test_engine_arguments_are_a_table_of_any_names(tmp_path: Path) -> None:
    (tmp_path / "hpcsci.toml").write_text(
        "[serving]\nreplicas = 2\n[serving.engine]\nmax_num_seqs = 64\nswap = 0.5\ntrust = true\n"
    )
    settings, _ = resolve({}, {}, tmp_path)
    assert settings.serving.replicas == 2
    assert settings.serving.engine == {"max_num_seqs": 64, "swap": 0.5, "trust": True}
    assert origins(tmp_path, {})["serving.engine"][1] == str(tmp_path / "hpcsci.toml")
    settings, _ = resolve({}, {"HPCSCI_SERVING_ENGINE": "{max_num_seqs = 8}"}, tmp_path)
    assert settings.serving.engine == {"max_num_seqs": 8}
    (tmp_path / "hpcsci.toml").write_text("[serving.engine]\n")
    assert resolve({}, {}, tmp_path)[0].serving.engine == {}


def test_a_folder_that_may_not_be_read_is_named_with_its_fix(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root may read anything
    try:
        with pytest.raises(ConfigError, match=r"hpcsci\.toml: .*read: .*folder"):
            resolve({}, {"XDG_CONFIG_HOME": "/nonexistent"}, closed)
    finally:
        os.seteuid(user)


def test_a_users_file_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"HPCSCI_CONFIG: .*/nowhere\.toml .*not exist"):
        resolve({}, {"HPCSCI_CONFIG": str(tmp_path / "nowhere.toml")}, tmp_path)
