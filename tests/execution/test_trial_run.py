from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trialkit import (
    FILL,
    Bench,
    assert_ended,
    assert_nothing_runs,
    count_from,
    small_disk,
    tell_of_memory,
)

from hpcscientist.errors import Interrupted
from hpcscientist.execution import trial
from hpcscientist.execution.bounds import supervise
from hpcscientist.execution.bounds.supervise import CommandEnd, Reason
from hpcscientist.execution.sandbox import running as sandbox
from hpcscientist.execution.trial_outcome import classify_failure
from hpcscientist.files import vault
from hpcscientist.files.hashing import hash_tree
from hpcscientist.files.trusted import TrustedCopies, TrustedCopy
from hpcscientist.records.site import Host
from hpcscientist.records.trial import (
    IdeaFailed,
    Isolation,
    MachineFailed,
    Outcome,
    Scored,
    TrialReport,
    TrialSpec,
)


def run(bench: Bench, body: str, **changes: Any) -> TrialReport:
    spec = bench.trial(body, **changes)
    return trial.run(spec, bench.run.trial(spec.trial_id))


def failure(outcome: Outcome) -> tuple[str, str]:
    assert isinstance(outcome, IdeaFailed | MachineFailed)
    assert "\n" not in outcome.detail
    return outcome.failure.value, outcome.detail


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process and no private folder outlives a trial, whatever it was."""
    private = tmp_path / "tmp"
    private.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    yield
    assert list(private.iterdir()) == []
    assert_nothing_runs()


def test_scored(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    tell_of_memory(monkeypatch, bench.run.trial("trial-1").out / "measured")
    report = run(bench, "await_file(OUT / 'measured'); print('hello'); predict()")
    assert report.outcome == Scored(metrics={"accuracy": 0.75})
    assert report.predictions_hash == hashlib.sha256(b"1\n0\n1\n1\n").hexdigest()
    assert report.usage.cpu_s > 0
    assert report.usage.peak_mb > 0
    assert report.usage.started_at <= report.usage.ended_at
    assert (report.trial_id, report.run) == ("trial-1", 1)
    assert bench.run.trial("trial-1").log.read_text() == "hello\n"


@pytest.mark.parametrize("name", ["home", "predictions", "code/work", "x" * 255])
def test_predictions_may_have_any_name(bench: Bench, name: str) -> None:
    body = f"path = OUT / {name!r}; path.parent.mkdir(exist_ok=True); path.write_text('1 0 1 1')"
    spec = bench.trial(body)
    sources = spec.sources.model_copy(update={"predictions": name})
    spec = spec.model_copy(update={"sources": sources})
    report = trial.run(spec, bench.run.trial(spec.trial_id))
    assert report.outcome == Scored(metrics={"accuracy": 0.75})


def test_a_folder_for_temporary_files_may_be_named_from_here(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.root / "here").mkdir()
    monkeypatch.chdir(bench.root / "here")
    monkeypatch.setattr(tempfile, "tempdir", ".")  # as with TMPDIR=.
    assert run(bench, "predict()").outcome == Scored(metrics={"accuracy": 0.75})


def test_error_names_the_exception(bench: Bench) -> None:
    report = run(bench, "print('before')\nraise KeyError('width')")
    assert failure(report.outcome) == ("error", "KeyError: 'width'")
    assert report.predictions_hash is None


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("print('cannot open x'); sys.exit(4)", "cannot open x"),
        ("sys.exit(4)", "exit code 4, with nothing printed"),
        ("os.kill(os.getpid(), 11)", "killed by signal 11: nothing printed"),
    ],
)
def test_error_without_a_traceback(bench: Bench, body: str, detail: str) -> None:
    assert failure(run(bench, body).outcome) == ("error", detail)


def test_timeout_leaves_no_daemon_behind(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    count_from(monkeypatch, bench.run.trial("trial-1").out / "predictions.csv")
    body = "daemon(linger)\nawait_file(OUT / 'daemon')\npredict()\nwhile True: time.sleep(60)"
    report = run(bench, body, deadline_s=2.0)
    assert failure(report.outcome) == ("timeout", "it ran past its deadline of 2 s")
    assert_ended(bench.run.trial("trial-1"), "daemon")


def test_a_daemon_cannot_change_what_is_scored(bench: Bench) -> None:
    report = run(bench, "daemon(linger)\nawait_file(OUT / 'daemon')\npredict()")
    assert isinstance(report.outcome, Scored)
    assert_ended(bench.run.trial("trial-1"), "daemon")


def test_out_of_memory(bench: Bench) -> None:
    report = run(bench, "held = b'x' * (300 << 20)\ntime.sleep(600)", memory_mb=128)
    assert failure(report.outcome)[0] == "out_of_memory"
    assert report.usage.peak_mb > 128


@pytest.fixture
def no_memory_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's counts are of a whole control group and node: of what runs beside this, too."""
    monkeypatch.setattr(supervise, "memory_kills", lambda: 0)
    monkeypatch.setattr(supervise, "memory_kills_of_node", lambda: 0)


@pytest.mark.usefixtures("no_memory_kills")
def test_a_candidate_that_kills_itself_did_not_run_out_of_memory(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The kernel's own figure of it is lost behind those of this process and its earlier children.
    tell_of_memory(monkeypatch, bench.run.trial("trial-1").out / "seen", above_mb=300)
    body = "held = b'x' * (300 << 20)\nawait_file(OUT / 'seen')\nos.kill(os.getpid(), 9)"
    kind, detail = failure(run(bench, body).outcome)
    assert kind == "error"
    assert "signal 9" in detail


@pytest.mark.usefixtures("no_memory_kills")
def test_a_kill_with_little_memory_in_use_may_be_the_machines_fault(bench: Bench) -> None:
    kind, detail = failure(run(bench, "os.kill(os.getpid(), 9)").outcome)
    assert kind == "lost"
    assert "signal 9" in detail
    assert "of 512 MiB" in detail
    assert "own code" in detail


@pytest.mark.parametrize(
    ("peak_mb", "node_starved", "kind", "can_be_its_own"),
    [
        (255.9, None, "lost", True),
        (255.9, False, "lost", True),
        (255.9, True, "lost", False),
        (256.0, None, "out_of_memory", True),
        (256.0, False, "error", True),
        (256.0, True, "out_of_memory", False),
    ],
)
def test_what_a_kill_means_and_by_whom_it_can_have_been(
    bench: Bench, peak_mb: float, node_starved: bool | None, kind: str, can_be_its_own: bool
) -> None:
    how = ended(exit_code=None, signal=9, peak_mb=peak_mb, node_starved=node_starved)
    outcome = classify_failure(bench.trial("predict()"), how, "")
    assert outcome is not None
    found, detail = failure(outcome)
    assert found == kind
    assert ("own code" in detail) == can_be_its_own


@pytest.mark.parametrize(
    "said",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has",
        "torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 MiB",
        "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying",
        "tensorflow.errors.ResourceExhaustedError: OOM when allocating tensor of shape",
        "RuntimeError: CUDA_ERROR_OUT_OF_MEMORY",
    ],
)
def test_a_gpu_without_memory_is_told_as_such(bench: Bench, said: str) -> None:
    tail = f'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n{said}\n'
    how = ended(exit_code=1)
    with_gpu, without = (bench.trial("predict()", f"gpus-{n}", gpus=n) for n in (1, 0))
    found = classify_failure(with_gpu, how, tail)
    assert found is not None
    kind, detail = failure(found)
    assert (kind, said in detail) == ("out_of_memory", True)
    told = classify_failure(without, how, tail)
    assert told is not None and failure(told) == ("error", said)
    other = classify_failure(with_gpu, how, "ValueError: out of memory of this")
    assert other is not None and failure(other)[0] == "error"


@pytest.mark.parametrize(
    ("said", "is_named"),
    [
        ("RuntimeError: can't start new thread", True),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", True),
        ("sh: 1: Cannot fork: Resource temporarily unavailable", True),
        ("RuntimeError: no thread of thought", False),
    ],
)
def test_who_gets_no_thread_is_told_how_many_it_may_have(
    bench: Bench, said: str, is_named: bool
) -> None:
    outcome = classify_failure(bench.trial("predict()", processes=77), ended(exit_code=1), said)
    assert outcome is not None
    kind, detail = failure(outcome)
    assert (kind, said in detail, "77" in detail) == ("error", True, is_named)


def test_a_kill_for_the_job_s_own_memory_is_the_idea_s_fault(bench: Bench) -> None:
    # As the kernel does where Slurm limits a job's memory by control groups, and counts it.
    how = ended(exit_code=None, signal=9, peak_mb=100.0, starved=True)
    outcome = classify_failure(bench.trial("predict()"), how, "")
    assert outcome is not None
    assert failure(outcome)[0] == "out_of_memory"


@pytest.mark.parametrize(
    "body",
    [
        "for n in range(40): (OUT / str(n)).write_bytes(bytes(1 << 16))",
        "pathlib.Path.home().joinpath('x').write_bytes(bytes(1 << 20)); predict(' ' * 10000)",
        "signal.signal(signal.SIGXFSZ, signal.SIG_DFL); (OUT / 'x').write_bytes(bytes(1 << 21))",
    ],
)
def test_too_much_output(bench: Bench, body: str) -> None:
    kind, detail = failure(run(bench, body, output_mb=1).outcome)
    assert kind == "error"
    assert "1 MiB" in detail


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("pass", "bad_predictions"),
        ("predict('1\\nnan\\n0\\n1\\n')", "bad_predictions"),
        ("predict('one')", "bad_predictions"),
        ("predict('')", "bad_predictions"),
        ("(OUT / 'predictions.csv').symlink_to(LABELS)", "tampering"),
        ("os.link(LABELS, OUT / 'predictions.csv')", "tampering"),
        ("os.mkfifo(OUT / 'predictions.csv')", "tampering"),
        ("os.mkdir(OUT / 'predictions.csv')", "tampering"),
        ("import socket; os.chdir(OUT); socket.socket(1).bind('predictions.csv')", "tampering"),
        ("os.rmdir(OUT); OUT.symlink_to(LABELS.parent)", "tampering"),
    ],
)
def test_predictions_that_are_none(bench: Bench, body: str, kind: str) -> None:
    report = run(bench, f"LABELS = pathlib.Path({str(bench.labels)!r})\n{body}")
    assert failure(report.outcome)[0] == kind
    assert report.predictions_hash is None
    assert bench.labels.read_text() == "1\n0\n1\n0\n"


def test_sparse_predictions_are_refused_by_size(bench: Bench) -> None:
    # A candidate of the same user may find a larger file and move it; its own are bounded.
    sparse = bench.root / "sparse"
    with sparse.open("wb") as file:
        file.truncate(1 << 40)
    report = run(bench, f"os.rename({str(sparse)!r}, OUT / 'predictions.csv')")
    kind, detail = failure(report.outcome)
    assert (kind, "8 MiB" in detail) == ("bad_predictions", True)


def test_predictions_below_a_linked_folder(bench: Bench) -> None:
    spec = bench.trial(f"(OUT / 'sub').symlink_to({str(bench.labels.parent)!r})")
    sources = spec.sources.model_copy(update={"predictions": "sub/labels.csv"})
    spec = spec.model_copy(update={"sources": sources})
    report = trial.run(spec, bench.run.trial(spec.trial_id))
    assert failure(report.outcome)[0] == "tampering"


@pytest.mark.parametrize(
    "body",
    [
        "(TRIAL / 'result.arrow').write_bytes(b'ARROW1')",
        "(TRIAL / 'more').mkdir(); (TRIAL / 'more' / 'x').write_text('')",
        "(TRIAL / 'spec.json').write_text('{}')",
        "(TRIAL / 'spec.json').unlink()",
        "(TRIAL / 'worker.json').unlink(); (TRIAL / 'worker.json').symlink_to('/dev/zero')",
        "(TRIAL / 'log').unlink()",
        "os.truncate(TRIAL / 'spec.json', 1 << 22)",
        "TRIAL.rename(TRIAL.with_name('moved'))",
        "TRIAL.rename(TRIAL.with_name('moved')); TRIAL.symlink_to('moved')",
        "raise SystemExit((TRIAL / 'result.arrow').write_bytes(b'ARROW1'))",
    ],
)
def test_tampering_with_the_trials_folder(bench: Bench, body: str) -> None:
    spec = bench.trial(f"predict()\n{body}")
    paths = bench.run.trial(spec.trial_id)
    paths.worker.write_text("{}")
    before = paths.spec.read_bytes()
    assert failure(trial.run(spec, paths).outcome)[0] == "tampering"
    assert {p.name for p in paths.root.iterdir()} <= {"spec.json", "worker.json", "log", "out"}
    assert paths.spec.read_bytes() == before
    assert paths.worker.read_text() == "{}"


def test_code_that_edits_itself_edits_a_copy(bench: Bench) -> None:
    body = "pathlib.Path(__file__).write_text('')\npathlib.Path('x.py').write_text('')\npredict()"
    spec = bench.trial(body)
    report = trial.run(spec, bench.run.trial(spec.trial_id))
    assert isinstance(report.outcome, Scored)
    assert hash_tree(Path(spec.sources.code)) == spec.provenance.code_hash


def test_a_metric_it_prints_is_not_read(bench: Bench) -> None:
    body = "print('{\"accuracy\": 1.0}')\nnote('result.json', '{\"accuracy\": 1.0}')\npredict()"
    assert run(bench, body).outcome == Scored(metrics={"accuracy": 0.75})


def test_huge_output_is_bounded(bench: Bench) -> None:
    report = run(bench, "for _ in range(500): os.write(1, b'x' * 65536)\npredict()")
    assert isinstance(report.outcome, Scored)
    assert bench.run.trial("trial-1").log.stat().st_size < 600_000


def test_environment_is_scrubbed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    run(bench, "note('env', '\\n'.join(os.environ)); note('cwd', os.getcwd()); predict()")
    out = bench.run.trial("trial-1").out
    seen = set((out / "env").read_text().split())
    assert seen <= {
        *("PATH", "LD_LIBRARY_PATH", "HOME", "TMPDIR", "LANG", "LC_CTYPE", "MPLBACKEND"),
        *("PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTHONUSERBASE"),
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
        *("HPCSCI_TRIAL", "HPCSCI_CAMPAIGN", "CUDA_VISIBLE_DEVICES"),
    }
    assert (out / "cwd").read_text().startswith(tempfile.gettempdir())


def test_what_an_earlier_run_left_in_out_is_gone(bench: Bench) -> None:
    spec = bench.trial("pass")
    paths = bench.run.trial(spec.trial_id)
    (paths.out / "predictions.csv").write_text("1\n0\n1\n0\n")
    assert failure(trial.run(spec, paths).outcome)[0] == "bad_predictions"


@pytest.mark.parametrize("broken", ["code", "no code", "scorer", "no scorer", "data", "entry"])
def test_what_is_missing_or_changed_is_the_machines_fault(bench: Bench, broken: str) -> None:
    spec = bench.trial("predict()")
    code = Path(spec.sources.code)
    match broken:
        case "code":
            (code / "experiment.py").write_text("pass")
        case "no code":
            (code / "experiment.py").unlink()
            code.rmdir()
        case "scorer":
            bench.scorer.write_text("print('{\"accuracy\": 1}')")
        case "no scorer":
            bench.scorer.unlink()
        case "data":
            (bench.root / "data").rename(bench.root / "elsewhere")
        case "entry":
            sources = spec.sources.model_copy(update={"entry": "main.py"})
            spec = spec.model_copy(update={"sources": sources})
    assert failure(trial.run(spec, bench.run.trial(spec.trial_id)).outcome)[0] == "setup"


def test_code_that_was_changed_while_it_waited_runs_as_it_was_recorded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(vault.ROOT_VARIABLE, str(bench.root / "root"))
    monkeypatch.setattr(vault, "_known", {})
    spec = bench.trial("predict()")
    file = Path(spec.sources.code) / "experiment.py"
    copy = TrustedCopy.of(bench.run.root, spec.provenance.campaign_id)
    copy.make(bench.run.root)
    name = bench.run.idea(spec.idea_id).code(spec.attempt).relative_to(bench.run.root)
    TrustedCopies(copy.contents).put(name.as_posix(), {file.name: file.read_text()})
    file.write_text("raise SystemExit(1)")
    report = trial.run(spec, bench.run.trial(spec.trial_id))
    assert report.outcome == Scored(metrics={"accuracy": 0.75})
    TrustedCopies(copy.contents).put(name.as_posix(), {file.name: "raise SystemExit(2)"})
    report = trial.run(spec, bench.run.trial(spec.trial_id))
    assert failure(report.outcome)[0] == "setup"


def test_a_scorer_changed_by_the_candidate_is_not_run(bench: Bench) -> None:
    text = "print('{\"accuracy\": 1.0}')"
    body = f"predict(); pathlib.Path({str(bench.scorer)!r}).write_text({text!r})"
    assert failure(run(bench, body).outcome)[0] == "setup"


def test_an_interpreter_that_is_missing_is_the_machines_fault(bench: Bench) -> None:
    spec = bench.trial("predict()")
    sources = spec.sources.model_copy(update={"python": "/no/such/python"})
    spec = spec.model_copy(update={"sources": sources})
    outcome = trial.run(spec, bench.run.trial(spec.trial_id)).outcome
    assert failure(outcome) == ("setup", "No such file or directory: /no/such/python")


class StoppedOnce(threading.Event):
    """Is set once a file exists: what is stopped has begun then."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def is_set(self) -> bool:
        return self._path.exists()


def test_stopping_reports_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = bench.trial("daemon(linger); await_file(OUT / 'daemon'); linger('main')")
    paths = bench.run.trial(spec.trial_id)
    before = {child.name for child in paths.root.iterdir()}
    run_candidate, seen = sandbox.run_candidate, []

    def watched(*given: Any) -> sandbox.CandidateEnd:
        seen.append(run_candidate(*given))
        return seen[-1]

    monkeypatch.setattr(sandbox, "run_candidate", watched)
    with pytest.raises(Interrupted, match=spec.trial_id):
        trial.run(spec, paths, StoppedOnce(paths.out / "main"))
    assert [ran.ended.reason for ran in seen] == [Reason.STOPPED]
    assert_ended(paths, "daemon", "main")
    assert {child.name for child in paths.root.iterdir()} == before | {"log"}


@pytest.mark.root
@pytest.mark.parametrize(
    "body", [FILL, f"try:\n    {FILL}\nexcept OSError:\n    pass"], ids=["crashes", "truncates"]
)
def test_a_full_disk_is_the_machines_fault(bench: Bench, body: str) -> None:
    with small_disk(bench.run.root, 4):
        assert failure(run(bench, body).outcome)[0] == "disk_full"


@pytest.mark.root
def test_a_full_scratch_is_named_and_not_the_run_directory(bench: Bench, tmp_path: Path) -> None:
    scratch = tmp_path / "own"
    body = """
    try:
        pathlib.Path(os.environ["TMPDIR"], "x").write_bytes(b"x" * (6 << 20))
    finally:
        pathlib.Path(os.environ["TMPDIR"], "y").write_bytes(b"x" * (1 << 20))
    """
    with small_disk(scratch, 4):
        spec = bench.trial(body)
        spec = spec.model_copy(update={"host": Host(scratch=str(scratch))})
        kind, detail = failure(trial.run(spec, bench.run.trial(spec.trial_id)).outcome)
        assert kind == "disk_full" and str(scratch) in detail
        assert str(bench.run.root) not in detail
        (scratch / "ballast").write_bytes(b"x" * (3 << 20))
        with contextlib.suppress(OSError), (scratch / "rest").open("wb", buffering=0) as rest:
            while True:
                rest.write(b"x" * 1024)
        kind, detail = failure(trial.run(spec, bench.run.trial(spec.trial_id)).outcome)
        assert kind == "disk_full" and str(scratch) in detail
        assert str(bench.run.root) not in detail


def test_a_quota_is_believed_where_it_is_and_not_where_it_is_printed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = bench.trial("raise OSError(122, 'Disk quota exceeded')")
    paths = bench.run.trial(spec.trial_id)
    told = failure(trial.run(spec, paths).outcome)
    assert told[0] == "error", "a candidate says so, and no more"

    def fallocate(*_: object) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "posix_fallocate", fallocate)  # no file system here has quotas
    kind, detail = failure(trial.run(spec, paths).outcome)
    assert kind == "disk_full" and "your quota" in detail


def ended(**changes: Any) -> CommandEnd:
    known: dict[str, Any] = {"exit_code": 0, "signal": None, "reason": Reason.EXITED}
    return CommandEnd(**(known | {"wall": 1.0, "cpu_s": 1.0, "peak_mb": 1.0} | changes))


def contained(spec: TrialSpec) -> TrialSpec:
    return spec.model_copy(update={"isolation": Isolation.APPTAINER})


def test_survivors_are_the_machines_fault(bench: Bench) -> None:
    outcome = classify_failure(bench.trial("predict()"), ended(survivors=(12, 13)), "")
    assert outcome is not None
    assert failure(outcome)[0] == "setup"
    assert "12, 13" in outcome.detail


def test_a_colon_in_a_path_is_said_before_apptainer_trips_over_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "a:b").prepare()
    spec = contained(bench.trial("predict()"))
    kind, detail = failure(trial.run(spec, bench.run.trial(spec.trial_id)).outcome)
    assert kind == "setup"
    assert "without colon" in detail
