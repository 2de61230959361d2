from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from bench_campaign import CampaignBench, ScriptedProposer, scored

from hpcscientist.config.settings import LoopSettings, Settings, SlurmOverrides
from hpcscientist.errors import CampaignBusy, UsageError
from hpcscientist.feedback.statistics import compare
from hpcscientist.files import vault
from hpcscientist.files.hashing import hash_file
from hpcscientist.files.rundir import RunPaths
from hpcscientist.records.findings import Claim, Evidence, Holding, Measured, Reproduction, Verdict
from hpcscientist.records.trial import (
    Direction,
    IdeaFailed,
    IdeaFailure,
    Isolation,
    MetricSpec,
    Outcome,
    Scored,
    Split,
    TrialReport,
    TrialSpec,
    Usage,
)
from hpcscientist.reproduction import claim_integrity, rerun
from hpcscientist.reproduction.claim_check import Said, check_claim
from hpcscientist.reproduction.claim_integrity import examine
from hpcscientist.reproduction.environment import RerunOptions, config_here
from hpcscientist.reproduction.reproduce import said_by

SEEDS = (1, 2, 3, 4, 5)
BASELINE = dict(zip(SEEDS, (0.70, 0.72, 0.71, 0.69, 0.70), strict=True))
IDEA = dict(zip(SEEDS, (0.80, 0.83, 0.80, 0.80, 0.79), strict=True))
FOUND = Said(Verdict.IMPROVEMENT, True, 0.05)
FAILED = IdeaFailed(failure=IdeaFailure.ERROR, detail="no such module")


def measured(of: str, split: Split, values: dict[int, float]) -> tuple[Measured, ...]:
    return tuple(
        Measured(
            trial_id=f"{of}-{split.value}-{seed}",
            seed=seed,
            metrics={"accuracy": value},
            predictions_hash=f"{of} {split.value} {seed}",
        )
        for seed, value in values.items()
    )


@pytest.fixture
async def claim(tmp_path: Path) -> Claim:
    bench = CampaignBench(tmp_path, ideas=1)

    def as_told(spec: TrialSpec) -> Outcome:
        return scored(0.5 if spec.idea_id == "baseline" else 0.9)

    await bench.drive(as_told, ScriptedProposer("one two"))
    made = Claim.model_validate_json(bench.paths.idea("idea-0001").claim.read_bytes())
    evidence = {
        split: Evidence(
            idea=measured("idea", split, IDEA),
            baseline=measured("baseline", split, BASELINE),
            comparison=compare(BASELINE, IDEA),
        )
        for split in Split
    }
    return made.model_copy(update={"evidence": evidence})


def reports(claim: Claim, changes: dict[str, Outcome], bits: bool = True) -> dict[str, TrialReport]:
    """What was recorded once more, but for some trials; without `bits` other predictions."""
    trials = [t for e in claim.evidence.values() for t in (*e.idea, *e.baseline)]
    return {
        trial.trial_id: TrialReport(
            trial_id=trial.trial_id,
            run=1,
            outcome=changes.get(trial.trial_id, scored(trial.metrics["accuracy"])),
            usage=Usage(started_at=1, ended_at=2),
            predictions_hash=trial.predictions_hash if bits else "others",
        )
        for trial in trials
    }


def moved(split: Split, by: dict[int, float]) -> dict[str, Outcome]:
    """The idea's values on a split, each moved by so much."""
    return {f"idea-{split.value}-{s}": scored(IDEA[s] + d) for s, d in by.items()}


def test_the_same_bits_hold(claim: Claim) -> None:
    found = check_claim(claim, FOUND, reports(claim, {}))
    assert (found.outcome, found.reasons) == (Holding.BITS, ())
    assert len(found.rows) == 20
    assert Reproduction.model_validate_json(found.model_dump_json()) == found


def test_other_bits_with_the_same_effect_hold_in_the_figures(claim: Claim) -> None:
    noise = dict(zip(SEEDS, (0.004, -0.006, 0.002, -0.001, 0.005), strict=True))
    again = reports(claim, moved(Split.TEST, noise), bits=False)
    assert check_claim(claim, FOUND, again).outcome is Holding.FIGURES


@pytest.mark.parametrize("split", list(Split))
def test_an_effect_that_shrank_beyond_chance_does_not_hold(claim: Claim, split: Split) -> None:
    again = reports(claim, moved(split, dict.fromkeys(SEEDS, -0.05)), bits=False)
    found = check_claim(claim, FOUND, again)
    assert found.outcome is Holding.NOT
    told = rf"{split.value}: [^+]*\+0\.05\b[^+]*\+0\.1\b"
    assert any(re.match(told, reason) for reason in found.reasons)


def test_an_improvement_that_noise_buries_is_not_shown_again(claim: Claim) -> None:
    noise = dict(zip(SEEDS, (-0.30, 0.30, -0.25, 0.25, -0.05), strict=True))
    changes = moved(Split.VALIDATION, noise) | moved(Split.TEST, noise)
    again = reports(claim, changes, bits=False)
    found = check_claim(claim, FOUND, again)
    assert found.outcome is Holding.NOT
    assert any(re.match("validation: .*improvement", reason) for reason in found.reasons)
    assert any(re.match("test: .*confirm", reason) for reason in found.reasons)
    nothing = Said(Verdict.MAINTENANCE, None, 0.05)
    assert check_claim(claim, nothing, again).outcome is Holding.FIGURES


def test_a_rerun_that_exceeds_a_tolerance_does_not_confirm(claim: Claim) -> None:
    """Runs take as long as recorded on a machine as fast, and the idea's longer on another."""
    tolerated = MetricSpec(name="seconds", direction=Direction.MINIMIZE, tolerance=1.0)
    claim = claim.model_copy(update={"tolerances": (tolerated,)})
    for longer, outcome in ((0.5, Holding.FIGURES), (3.0, Holding.NOT)):
        again = {
            trial_id: report.model_copy(update={"outcome": Scored(metrics=values)})
            for trial_id, report in reports(claim, {}, bits=False).items()
            if isinstance(report.outcome, Scored)
            for seconds in [10.0 + longer * trial_id.startswith("idea")]
            for values in [report.outcome.metrics | {"seconds": seconds}]
        }
        found = check_claim(claim, FOUND, again)
        assert found.outcome is outcome
        assert any("seconds" in reason for reason in found.reasons) is (longer > 1)
        unshown = [r for r in found.reasons if re.match("validation: .*improvement", r)]
        assert bool(unshown) is (longer > 1)


def test_recorded_seeds_that_exceed_a_tolerance_show_no_improvement(claim: Claim) -> None:
    def longer(trials: tuple[Measured, ...], seconds: float) -> tuple[Measured, ...]:
        found = (t.model_copy(update={"metrics": t.metrics | {"seconds": seconds}}) for t in trials)
        return tuple(found)

    tolerated = MetricSpec(name="seconds", direction=Direction.MINIMIZE, tolerance=1.0)
    for seconds, finding in ((10.5, Verdict.IMPROVEMENT), (13.0, Verdict.MAINTENANCE)):
        evidence = {
            split: known.model_copy(
                update={"idea": longer(known.idea, seconds), "baseline": longer(known.baseline, 10)}
            )
            for split, known in claim.evidence.items()
        }
        own = claim.model_copy(update={"evidence": evidence, "tolerances": (tolerated,)})
        said, _ = said_by(own, LoopSettings())
        assert (said.finding, said.confirmed) == (finding, seconds < 11)


def test_a_trial_that_fails_now_does_not_hold(claim: Claim) -> None:
    found = check_claim(claim, FOUND, reports(claim, {"idea-test-3": FAILED}))
    assert found.outcome is Holding.NOT
    (reason,) = found.reasons
    assert "idea-test-3" in reason
    assert "no such module" in reason


def test_the_same_predictions_with_another_score_do_not_hold(claim: Claim) -> None:
    found = check_claim(claim, FOUND, reports(claim, moved(Split.VALIDATION, {2: 0.01})))
    assert found.outcome is Holding.NOT
    assert re.search(r"\bpredictions score 0\.84\b.*\b0\.83\b", found.reasons[0])


def test_two_reruns_do_not_fill_one_folder(claim: Claim, tmp_path: Path) -> None:
    campaign = RunPaths(tmp_path / "run")
    first = rerun.choose_folder(campaign, claim, None)
    second = rerun.choose_folder(campaign, claim, None)
    assert (first.root.name, second.root.name) == ("idea-0001-1", "idea-0001-2")
    with (
        rerun.locked(first),
        pytest.raises(CampaignBusy, match="another --out"),
        rerun.locked(first),
    ):
        pass
    assert rerun.choose_folder(campaign, claim, first.root).root == first.root
    other = claim.model_copy(update={"attempt": 2})
    with pytest.raises(UsageError, match="another claim"):
        rerun.choose_folder(campaign, other, first.root)


def wanted(**changes: str) -> RerunOptions:
    given = {"backend": "", "site": "", "image": ""} | changes
    return RerunOptions(words=SlurmOverrides(), folder=Path.cwd(), settings=Settings(), **given)


def test_an_image_is_known_by_its_hash_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    image, program = tmp_path / "here.sif", tmp_path / "bin" / "apptainer"
    image.write_bytes(b"an image")
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv(vault.ROOT_VARIABLE, str(tmp_path / "sealed"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = bench.config.model_copy(
        update={
            "isolation": Isolation.APPTAINER,
            "image": str(tmp_path / "gone.sif"),
            "image_hash": hash_file(image),
        }
    )
    with pytest.raises(UsageError, match="say with --image"):
        config_here(config, bench.recipe, wanted())
    image.write_bytes(b"another")
    found = config_here(config, bench.recipe, wanted(image=str(image)))
    assert isinstance(found, str)
    assert found.startswith(f"{image} ")
    program.unlink()
    with pytest.raises(UsageError, match="no Apptainer"):
        config_here(config, bench.recipe, wanted(image=str(image)))


def test_with_one_seed_another_effect_is_too_little_to_tell(claim: Claim) -> None:
    one = Evidence(
        idea=measured("idea", Split.VALIDATION, {1: IDEA[1]}),
        baseline=measured("baseline", Split.VALIDATION, {1: BASELINE[1]}),
        comparison=compare({1: BASELINE[1]}, {1: IDEA[1]}),
    )
    claim = claim.model_copy(update={"evidence": {Split.VALIDATION: one}})
    again = reports(claim, moved(Split.VALIDATION, {1: -0.04}), bits=False)
    found = check_claim(claim, Said(None, None, 0.05), again)
    assert found.outcome is Holding.OPEN
    (reason,) = found.reasons
    assert re.search(r"\+0\.06\b.*\+0\.1\b.*\bfew seeds\b", reason)
    assert check_claim(claim, FOUND, again).outcome is Holding.NOT, "an improvement was claimed"
    unmoved = check_claim(claim, Said(None, None, 0.05), reports(claim, {}, bits=False))
    assert unmoved.outcome is Holding.FIGURES


async def test_only_a_claim_of_an_earlier_version_says_no_level(tmp_path: Path) -> None:
    bench = CampaignBench(tmp_path, ideas=1)
    await bench.drive(
        lambda spec: scored(0.5 if spec.idea_id == "baseline" else 0.9), ScriptedProposer("one two")
    )
    idea = bench.paths.idea("idea-0001")
    whole = json.loads(idea.claim.read_text())

    def problems(*without: str) -> list[str]:
        kept = {name: value for name, value in whole.items() if name not in without}
        idea.claim.write_text(json.dumps(kept))
        found = examine(claim_integrity.read_recorded(bench.paths, "idea-0001")).problems
        return [problem for problem in found if problem.startswith("claim.json")]

    assert problems() == []
    told = [
        "claim.json: q is None, 0.05 by the journal and the campaign",
        "claim.json: decision is None, fdr by the journal and the campaign",
    ]
    assert problems("q", "decision") == told, "recipe.tar lies beside it: it was written with them"
    idea.recipe.unlink()
    assert problems("q", "decision") == []
    assert problems("q") == told[:1]
    assert problems("decision") == told[1:]
