from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcscientist.cli.config import show
from hpcscientist.config.layers import load_site, resolve_site
from hpcscientist.config.settings import SlurmOverrides
from hpcscientist.errors import ConfigError
from hpcscientist.records.site import Site

SITES = Path(__file__).parents[2] / "slurm" / "sites"
EXAMPLES = sorted(SITES.glob("*.toml"))


def write(folder: Path, text: str) -> str:
    (folder / "site.toml").write_text(text)
    return "site.toml"


def test_no_profile_is_all_defaults(tmp_path: Path) -> None:
    assert load_site("", tmp_path) == Site()


def test_there_are_examples() -> None:
    assert {path.stem for path in EXAMPLES} == {"cpu-cluster", "gpu-cluster", "no-accounting"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_a_profile(path: Path, tmp_path: Path) -> None:
    assert load_site(str(path), tmp_path).name == path.stem


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_what_an_example_comments_out_is_a_profile_too(path: Path, tmp_path: Path) -> None:
    text, count = re.subn(r"^# (\w+ = )", r"\1", path.read_text(), flags=re.MULTILINE)
    assert load_site(write(tmp_path, text), tmp_path).name == path.stem
    assert count or path.stem == "no-accounting"


def test_command_line_beats_the_profile(tmp_path: Path) -> None:
    path = write(tmp_path, '[slurm]\naccount = "a"\npartition = "p"\n[watch]\nround_max_s = 60\n')
    overrides = SlurmOverrides(partition="q", constraint="a|b")
    site, values = resolve_site(path, tmp_path, overrides)
    slurm = site.slurm
    assert (slurm.account, slurm.partition, slurm.constraint) == ("a", "q", "a|b")
    assert site.watch.round_max_s == 60.0
    origins = {value.key: value.origin for value in values}
    assert origins["slurm.account"] == str(tmp_path / "site.toml")
    assert origins["slurm.partition"] == "setting slurm.partition"
    assert origins["slurm.qos"] == "default"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[slurm]\nacount = "x"', "mean 'slurm.account'"),
        ("[slrum]", "mean 'slurm"),
        ("[host]\nscrach = 3", "mean 'host.scratch'"),
        ("slurm = 3", "'slurm'"),
        ("[[slurm]]", "'slurm'"),
        ('[slurm.account]\nname = "x"', "'slurm.account.name'"),
        ("[slurm]\naccount = 3", "slurm.account: Input should"),
        ('[slurm]\nmemory = "all"', "'mem-per-cpu'"),
        ('[slurm]\naccount = "a\\n#SBATCH --uid=0"', "slurm.account"),
        ('[slurm]\ngres = "gpu:2"', "slurm.gres"),
        ('[slurm]\nextra = ["--mail-type=END", 3]', "slurm.extra"),
        ('[slurm]\nextra = ["mail"]', "slurm.extra"),
        ('[slurm]\nextra = "--mail-type=END"', "slurm.extra"),
        ('[host]\nbinds = ["/a,/b"]', "host.binds"),
        ('[host]\nnetwork = "some"', "host.network"),
        ("[controller]\nminutes = 0", "controller.minutes"),
        ("[watch]\nround_min_s = -1", "watch.round_min_s"),
        ("[serving]\nobject_store_mb = 1", "serving.object_store_mb"),
        ('[serving]\npyhton = "x"', "mean 'serving.python'"),
        ("name = = 3", "be read: "),
        ("name = 2026-01-01", "name"),
    ],
)
def test_bad_profile_is_refused_by_name(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_site(write(tmp_path, text), tmp_path)
    assert says in str(caught.value)
    assert "site.toml: " in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_missing_profile_says_where_examples_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: .*slurm/sites"):
        load_site("nowhere.toml", tmp_path)


def test_config_show_lists_the_merged_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, '[slurm]\npartition = "p"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCSCI_SITE", path)
    monkeypatch.setenv("HPCSCI_SLURM_QOS", "long")
    rows = json.loads(CliRunner().invoke(show, ["--json"]).stdout)
    shown = {row["key"]: (row["value"], row["origin"]) for row in rows}
    assert shown["site"] == (path, "variable HPCSCI_SITE")
    assert shown["site.slurm.partition"] == ("p", str(tmp_path / path))
    assert shown["site.slurm.qos"] == ("long", "setting slurm.qos")
    assert shown["site.slurm.pack_s"] == (60.0, "default")
