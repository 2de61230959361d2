"""`hpcsci reproduce` holds for a claim, and fails for one with which somebody tampered."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from benchmarks.campaigns.tampering import reseal
from campaigns import HPCSCI, LIMIT_S, TinyCampaign, hpcsci
from forging import change, change_recorded, forge
from reproducible import BROKEN, CERTAIN, CHANCE, UNCHANGED, copy, launch, row_of
from test_signals import heed_sigint, wait_until

from hpcscientist.files.hashing import hash_tree
from hpcscientist.files.vault import ROOT_VARIABLE
from hpcscientist.history.status import DriverLock
from hpcscientist.records.findings import Holding
from hpcscientist.results.compact import compact

pytestmark = [pytest.mark.e2e, pytest.mark.full]

Spoil = Callable[[TinyCampaign], object]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> TinyCampaign:
    return launch(tmp_path_factory.mktemp("finished"))


def again(campaign: TinyCampaign, idea_id: str, *options: str) -> subprocess.CompletedProcess[str]:
    return hpcsci("reproduce", "run", "--idea", idea_id, *options, cwd=campaign.folder)


def report(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_confirmed_claim_holds_bit_by_bit_on_both_splits(
    finished: TinyCampaign, tmp_path: Path
) -> None:
    campaign = copy(finished, tmp_path)
    row = row_of(campaign, CERTAIN)
    assert (row["finding"], row["confirmed"]) == ("improvement", True)
    before = hash_tree(campaign.paths.root)
    done = again(campaign, CERTAIN, "--out", "elsewhere")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{CERTAIN}: holds"
    assert hash_tree(campaign.paths.root) == before, "nothing of the campaign is touched"
    found = json.loads((tmp_path / "elsewhere" / "reproduction.json").read_text())
    assert {(r["split"], r["of"]) for r in found["rows"]} == {
        (split, of) for split in ("validation", "test") for of in ("baseline", "idea")
    }
    assert len(found["rows"]) == 20
    assert all(r["same_bits"] and r["recorded"] == r["again"] for r in found["rows"])
    assert found["effects"]["test"]["recorded"]["delta"] == pytest.approx(row["test_delta"])
    assert "elsewhere" in done.stderr, "progress is told on stderr"


def test_claim_says_all_that_was_measured(finished: TinyCampaign) -> None:
    claim = json.loads(finished.paths.idea(CERTAIN).claim.read_text())
    assert set(claim["evidence"]) == {"validation", "test"}
    for evidence in claim["evidence"].values():
        assert len(evidence["idea"]) == len(evidence["baseline"]) == 5
    assert claim["data_hash"]
    assert claim["package_hash"]


def test_what_never_saw_the_test_split_does_not_see_it_now(
    finished: TinyCampaign, tmp_path: Path
) -> None:
    campaign = copy(finished, tmp_path)
    assert row_of(campaign, UNCHANGED)["finding"] == "maintenance"
    done = again(campaign, UNCHANGED, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = report(done)
    assert found["outcome"] == "holds"
    assert {row["split"] for row in found["rows"]} == {"validation"}
    specs = Path(found["folder"]).glob("trials/*/spec.json")
    assert {json.loads(spec.read_text())["split"] for spec in specs} == {"validation"}


def test_chance_holds_in_the_figures_and_not_in_the_bits(
    finished: TinyCampaign, tmp_path: Path
) -> None:
    campaign = copy(finished, tmp_path)
    done = again(campaign, CHANCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{CHANCE}: holds in the figures, not bit by bit"
    bits = re.findall(r"^\w+ +(baseline|idea) .*(yes|no)$", done.stdout, re.MULTILINE)
    assert {bit for of, bit in bits if of == "baseline"} == {"yes"}
    assert "no" in {bit for of, bit in bits if of == "idea"}


def code(campaign: TinyCampaign) -> None:
    change(campaign.paths.idea(CERTAIN).code(1) / "experiment.py", "0.02", "0.01")


def code_gone(campaign: TinyCampaign) -> None:
    shutil.rmtree(campaign.paths.idea(CERTAIN).attempt(1))


def result(campaign: TinyCampaign, metric: float = 1.0) -> None:
    file = campaign.paths.trial(f"{CERTAIN}-a1-search-0").result
    with pa.ipc.open_file(file.read_bytes()) as reader:
        table = reader.read_all()
    place = table.schema.names.index("value")
    changed = table.set_column(place, table.schema.field("value"), pa.array([metric]))
    file.unlink()
    with pa.ipc.new_file(str(file), changed.schema) as writer:
        writer.write_table(changed)


def result_gone(campaign: TinyCampaign) -> None:
    shutil.rmtree(campaign.paths.trial("baseline-a1-baseline-2").root)


def journal(campaign: TinyCampaign) -> None:
    change_recorded(campaign, f"{CERTAIN}-a1-confirm-1", 1.0)


def seed(campaign: TinyCampaign) -> None:
    lines = [json.loads(line) for line in campaign.paths.journal.read_text().splitlines()]
    for event in (line["event"] for line in lines):
        if event["type"] == "trial_queued" and event["trial_id"] == f"{CERTAIN}-a1-search-1":
            event["seed"] = 12345
    reseal(campaign.paths.journal, lines)


def recipe(campaign: TinyCampaign) -> None:
    change(campaign.paths.recipe / "score.py", "/ len(labels)", "/ (len(labels) - 1)")


def recipe_unreadable(campaign: TinyCampaign) -> None:
    (campaign.paths.recipe / "recipe.toml").write_text("nonsense")


def hash_of_recipe(campaign: TinyCampaign) -> None:
    recipe(campaign)
    known = re.search(r'^recipe_hash = "(\w+)"', campaign.paths.campaign.read_text(), re.MULTILINE)
    assert known is not None
    change(campaign.paths.campaign, known[1], hash_tree(campaign.paths.recipe))


def claim(campaign: TinyCampaign) -> None:
    change(campaign.paths.idea(CERTAIN).claim, '"delta": 0.', '"delta": 1.')


def claim_unreadable(campaign: TinyCampaign) -> None:
    campaign.paths.idea(CERTAIN).claim.write_text("{}")


def archive(campaign: TinyCampaign) -> None:
    path = campaign.paths.idea(CERTAIN).recipe
    path.write_bytes(path.read_bytes().replace(b"/ len(labels)", b"/ len(given )"))


def image(campaign: TinyCampaign) -> None:
    change(campaign.paths.campaign, 'isolation = "none"', 'isolation = "apptainer"')


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (code, r"/attempts/1/code .*\bhash\b"),
        (code_gone, "attempts/1/code is gone"),
        (result, r"search-0: accuracy \D*0\.\d+ .* 1\.0 "),
        (result, r"search-0/result\.arrow .*\bseal\b"),
        (result_gone, r"baseline-a1-baseline-2 .*\bgone\b"),
        (journal, r"confirm-1: accuracy \D*1\.0 \D*0\.\d+ "),
        (journal, r"claim\.json: .*\btest split\b"),
        (seed, "search-1: seed is 12345"),
        (recipe, r"/recipe .*\bcampaign\.toml\b"),
        (recipe_unreadable, r"/recipe .*\bcampaign\.toml\b"),
        (hash_of_recipe, "recipe_hash is"),
        (hash_of_recipe, "claim.json: scorer_hash is"),
        (claim, r"claim\.json: .*\bvalidation split\b"),
        (claim_unreadable, r"claim\.json cannot\b"),
        (archive, r"recipe\.tar .* recipe/score\.py .*\bSHA256SUMS\b"),
        (image, r": isolation .*\bapptainer\b.*\bnone\b.*\bresult"),
    ],
)
def test_what_was_tampered_with_does_not_hold_and_nothing_is_run(
    finished: TinyCampaign,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Spoil,
    told: str,
) -> None:
    campaign = copy(finished, tmp_path)
    # With the campaign's key: without it a changed journal is refused as a whole.
    monkeypatch.setenv(ROOT_VARIABLE, str(finished.folder / "sealed"))
    spoil(campaign)
    done = again(campaign, CERTAIN)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert any(re.search(f"{told}.*: {Holding.NOT}$", line) for line in lines), lines
    assert lines[-1].startswith(f"{CERTAIN}: {Holding.NOT}")
    assert not campaign.paths.reproductions.exists()


def test_who_forges_everything_alike_is_found_by_running_it(
    finished: TinyCampaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = copy(finished, tmp_path)
    monkeypatch.setenv(ROOT_VARIABLE, str(finished.folder / "sealed"))
    forge(campaign, UNCHANGED, 0.99)
    assert row_of(campaign, UNCHANGED)["finding"] == "improvement"
    done = again(campaign, UNCHANGED)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^note: .*\bno claim\.json\b", done.stdout, re.MULTILINE)
    told = rf"^{UNCHANGED}-a1-search-0: .*\bpredictions score 0\..*: {Holding.NOT}$"
    assert re.search(told, done.stdout, re.MULTILINE), done.stdout


def test_data_that_are_gone_are_prepared_anew(finished: TinyCampaign, tmp_path: Path) -> None:
    campaign = copy(finished, tmp_path)
    for name in ("data", "sealed"):
        shutil.copytree(finished.folder / name, tmp_path / name)
    roots = (tmp_path / "hpcsci.toml", campaign.paths.campaign)
    for file in roots:
        file.write_text(file.read_text().replace(str(finished.folder), str(tmp_path)))
    shutil.rmtree(tmp_path / "data")
    done = again(campaign, UNCHANGED)
    assert done.returncode == 0, done.stdout + done.stderr
    spoilt = next((tmp_path / "data").glob("*/validation/validation/inputs.txt"))
    spoilt.chmod(0o644)
    spoilt.write_text("1 2 3")
    done = again(campaign, UNCHANGED)
    assert done.returncode == 1
    assert re.search(rf"\bdata below {tmp_path}/data/.*: {Holding.NOT}$", done.stdout, re.MULTILINE)


def test_a_compacted_campaign_is_reproduced_while_a_driver_holds_it(
    finished: TinyCampaign, tmp_path: Path
) -> None:
    campaign = copy(finished, tmp_path)
    compact(campaign.paths)
    assert not campaign.paths.trial(f"{UNCHANGED}-a1-search-0").root.exists()
    driver = DriverLock(campaign.paths.lock)
    try:
        done = again(campaign, UNCHANGED)
    finally:
        driver.release()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{UNCHANGED}: holds"


def test_wrong_use_names_the_ideas_there_are(finished: TinyCampaign, tmp_path: Path) -> None:
    campaign = copy(finished, tmp_path)
    unknown = again(campaign, "idea-0009")
    assert unknown.returncode == 2
    assert f"scored: {CERTAIN}, {CHANCE}, {UNCHANGED}" in unknown.stderr
    failed = again(campaign, BROKEN)
    assert failed.returncode == 2
    assert re.search(rf"--idea {BROKEN}: .*\bfailed: error\b", failed.stderr)
    boxed = again(campaign, CERTAIN, "--image", "x.sif")
    assert boxed.returncode == 2
    assert "without a container" in boxed.stderr
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    full = again(campaign, CERTAIN, "--out", "full")
    assert full.returncode == 2
    assert re.search("--out .*/full: .*empty", full.stderr)
    nowhere = hpcsci("reproduce", "nowhere", "--idea", "x", cwd=tmp_path)
    assert nowhere.returncode == 2
    assert re.search(r"/nowhere: .*\(no campaign\.toml\)", nowhere.stderr)


def test_ctrl_c_leaves_nothing_running_and_it_can_be_taken_up(
    finished: TinyCampaign, tmp_path: Path
) -> None:
    campaign = copy(finished, tmp_path)
    waiting = Path(f"{finished.count_file}.wait")
    waiting.touch()
    command = [*HPCSCI, "reproduce", "run", "--idea", CERTAIN, "--out", "half"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_sigint,  # noqa: PLW1509 (this process has one thread)
    )
    try:
        wait_until(lambda: bool(candidates(tmp_path)) or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=LIMIT_S)
    finally:
        waiting.unlink()
        process.kill()
        process.communicate()
    assert process.returncode == 130, stderr
    assert "--out" in stderr.splitlines()[-1]
    assert candidates(tmp_path) == []
    other = again(campaign, UNCHANGED, "--out", "half")
    assert other.returncode == 2
    assert "another claim" in other.stderr
    done = again(campaign, CERTAIN, "--out", "half")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a finished rerun" in again(campaign, CERTAIN, "--out", "half").stderr


def candidates(folder: Path) -> list[str]:
    """Command lines of the idea's candidates below a folder; these wait."""
    found = []
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if "experiment.py" in line and f"{folder}/half/trials/{CERTAIN}" in line:
            found.append(line)
    return found
