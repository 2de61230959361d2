"""`hpcsci serve` without an engine: what is refused, shown, submitted and followed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from checkpoint_kit import write_model

from hpcscientist.cli.main import run
from hpcscientist.config.settings import Settings
from hpcscientist.errors import Interrupted, ServingError
from hpcscientist.execution.backends.slurm.commands import Slurm
from hpcscientist.files.atomic import write_atomic
from hpcscientist.launching.serving import standalone
from hpcscientist.models.serving.order import Address, Endpoint, ServingPaths

QUEUE = """\
#!/bin/sh
case "$0" in
*/sbatch) cat > {folder}/script; echo 41 ;;
*/scancel) echo "$@" >> {folder}/cancelled; rm -f {folder}/queue ;;
*) cat {folder}/queue 2>/dev/null; true ;;
esac
"""
ENDPOINT = Endpoint(
    nonce="n",
    url="http://127.0.0.1:20008/v1",
    models=("small",),
    nodes=("n1", "n2"),
    head="n1",
    replicas=(Address(model="small", url="https://10.0.0.1:20010/v1"),),
    contexts={"small": 2048},
    started=0.0,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a model; it has no Slurm, and no job's variables."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for name in list(os.environ):
        if name.startswith("SLURM"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("HPCSCI_SERVING_KV_CACHE_GB", "0.25")
    write_model(work / "small", num_hidden_layers=2)
    return work


def enqueue(folder: Path, state: str, reason: str, node: str, owner: str) -> None:
    """Put a row into the queue that the stand-ins show."""
    name, comment = f"hpcsci-{owner}-serve", f"hpcsci:{owner}:serve"
    fields = ["41", "N/A", state, reason, node, name, comment, "41", "p"]
    (folder / "queue").write_text("\x1f".join(fields) + "\n")


@pytest.fixture
def slurm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for Slurm's commands; the folder of their queue."""
    (folder.parent / "site.toml").write_text("[controller]\nmemory_mb = 8000\n")
    commands = folder.parent / "commands"
    commands.mkdir()
    for name in ("sbatch", "squeue", "scancel"):
        (commands / name).write_text(QUEUE.format(folder=commands))
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    return commands


def made(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "small")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "give --model vllm:PATH"),
        (["--model", "search"], 2, "give vllm:PATH"),
        (["--model", "playbook"], 2, "give vllm:PATH"),
        (["--model", "http://h:1/v1#m"], 2, "give vllm:PATH"),
        (["--model", "vllm:./nowhere"], 2, "/nowhere: "),
        (["--model", "vllm:small", "--site", "none.toml"], 2, "none.toml"),
        (["--model", "vllm:small", "--detach"], 2, "--detach needs --nodes N"),
        (["--model", "vllm:small", "--nodes", "-1"], 2, "give 1 or more"),
        (["--model", "vllm:small", "--nodes", "2"], 2, "no sbatch"),
        (["--as-submitted"], 2, "give --model vllm:PATH"),
    ],
)
def test_bad_input_is_one_line_and_makes_nothing(
    arguments: list[str], code: int, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert said in err
    assert made(folder) == []


def test_weights_that_are_not_whole(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "small" / "model-00002-of-00002.safetensors").unlink()
    (folder / "small" / "tokenizer.json").unlink()
    assert run(["serve", "--model", "vllm:small"]) == 1
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "model-00002-of-00002.safetensors" in err
    assert "tokenizer" in err
    assert made(folder) == []


def test_an_interpreter_without_an_engine(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bare = folder.parent / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    bare.chmod(0o755)
    (folder.parent / "site.toml").write_text(f'[serving]\npython = "{bare}"\n')
    assert run(["serve", "--model", "vllm:small", "--site", "../site.toml"]) == 1
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert re.search(rf"{bare} cannot\b.* \[serving\]", err)
    assert made(folder) == []


def test_a_folder_that_holds_something_else(
    folder: Path, slurm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "d").mkdir()
    (folder / "d" / "thesis.tex").touch()
    arguments = ["--model", "vllm:small", "--site", "../site.toml", "--nodes", "1", "--dir", "d"]
    assert run(["serve", *arguments]) == 2
    assert "give another --dir" in capsys.readouterr().err
    assert made(folder) == ["d"]
    assert made(folder / "d") == ["thesis.tex"]


def test_dry_run_shows_layout_and_script(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder.parent / "site.toml").write_text(
        '[slurm]\npartition = "gpu"\ngres = "gpu:h200:{gpus}"\n[controller]\ngpus = 2\n'
    )
    arguments = ["serve", "--model", "vllm:small", "--nodes", "2", "--site", "../site.toml"]
    assert run([*arguments, "--qos", "long", "--dir", "d", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("#!/bin/bash\n")
    for option in ("nodes=2", "gres=gpu:h200:2", "partition=gpu", "qos=long", "no-requeue"):
        assert f"#SBATCH --{option}\n" in out
    assert re.search(r"--job-name=hpcsci-plane-[0-9a-f]{8}-serve\n", out)
    assert out.endswith(f"serve --as-submitted --dir {folder / 'd'}\n")
    assert "small: " in err
    assert "replicas" in err
    assert made(folder) == []


def test_dry_run_where_gpus_are_not_known(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder.parent / "site.toml").write_text("[controller]\ngpus = 2\n")
    arguments = ["serve", "--model", "vllm:small", "--nodes", "1", "--site", "../site.toml"]
    assert run([*arguments, "--dry-run"]) == 0
    assert re.search(r"\blayout\b.*\bjob\b.*\bGPUs\b", capsys.readouterr().err)


def test_dry_run_where_a_model_fits_with_16_bits_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["serve", "--model", "vllm:small", "--nodes", "1", "--site", "../site.toml"]
    for memory_mb, is_told in ((3_074, True), (3_500, False)):
        (folder.parent / "site.toml").write_text(f"[controller]\nmemory_mb = {memory_mb}\n")
        assert run([*arguments, "--dry-run"]) == 0
        err = capsys.readouterr().err
        assert "small: " in err
        assert bool(re.search(r"AVX-512 .*\bfloat32\b", err)) is is_told


def test_too_large_is_found_before_anything_is_submitted(
    folder: Path, slurm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder.parent / "site.toml").write_text("[controller]\nmemory_mb = 512\n")
    arguments = ["serve", "--model", "vllm:small", "--nodes", "1", "--site", "../site.toml"]
    assert run(arguments) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (slurm / "script").exists()
    assert made(folder) == []


def test_detached_it_is_submitted_and_left_alone(
    folder: Path, slurm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["serve", "--model", "vllm:small", "--nodes", "1", "--site", "../site.toml"]
    arguments += ["--dir", "d"]
    assert run([*arguments, "--detach"]) == 0
    out, err = capsys.readouterr()
    assert out == "41\n"
    assert "`scancel 41`" in err
    paths = ServingPaths(folder / "d")
    asked = standalone.read(paths)
    assert asked.folders == (str(folder / "small"),)
    assert f"--job-name=hpcsci-{asked.owner}-serve" in (slurm / "script").read_text()
    assert paths.logs.is_dir()  # Slurm makes no folder for a job's output
    assert not (slurm / "cancelled").exists()

    enqueue(slurm, "PENDING", "Priority", "", asked.owner)
    assert run([*arguments, "--detach"]) == 2
    assert "`scancel 41`" in capsys.readouterr().err


def test_a_refusal_leaves_the_folder_of_an_earlier_plane_usable(
    folder: Path, slurm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["serve", "--model", "vllm:small", "--nodes", "1", "--site", "../site.toml"]
    arguments += ["--dir", "d", "--detach"]
    assert run(arguments) == 0
    paths = ServingPaths(folder / "d")
    paths.key.write_text("key")  # what that plane made
    (paths.logs / "n1.log").touch()
    accepts = (slurm / "sbatch").read_text()
    (slurm / "sbatch").write_text("#!/bin/sh\necho 'invalid partition' >&2\nexit 1\n")
    assert run(arguments) != 0
    assert "invalid partition" in capsys.readouterr().err
    (slurm / "sbatch").write_text(accepts)
    assert run(arguments) == 0
    assert paths.key.read_text() == "key"


class Followed:
    """A job that is followed, while `steps` happen one after the other."""

    def __init__(self, folder: Path, slurm: Path, *steps: object) -> None:
        self.slurm, self.paths, self.told = slurm, ServingPaths(folder / "d"), list[str]()
        self.request = standalone.check(["vllm:small"], Settings(), folder)
        standalone.claim(self.paths, self.request)
        self.now, self.steps = 0.0, iter(steps)

    def wait(self, seconds: float) -> None:
        self.now += 60.0
        step = next(self.steps)
        if callable(step):
            step()
        elif isinstance(step, BaseException):
            raise step

    def queue(self, state: str, reason: str = "None", node: str = "") -> None:
        enqueue(self.slurm, state, reason, node, self.request.owner)

    def follower(self) -> standalone.ServingFollower:
        return standalone.ServingFollower(
            *(Slurm(), self.paths, self.request, "41", self.told.append),
            wait=self.wait,
            clock=lambda: self.now,
        )


def test_followed_from_the_queue_to_the_endpoint(folder: Path, slurm: Path) -> None:
    job = Followed(
        folder,
        slurm,
        lambda: None,
        lambda: job.queue("RUNNING", node="n1"),
        lambda: job.paths.state.write_text("1 of 2 nodes have joined\n"),
        lambda: None,
        lambda: write_atomic(job.paths.endpoint, ENDPOINT.model_dump_json().encode()),
    )
    job.queue("PENDING", "Priority")
    assert job.follower().until_ready() == ENDPOINT
    assert job.told == [
        "job 41 is queued, reason Priority",
        "job 41 runs on n1",
        "model plane: 1 of 2 nodes have joined",
        "model plane: 1 of 2 nodes have joined, for 1 minute so far",
    ]


def test_a_job_that_ends_is_told_with_its_last_words(folder: Path, slurm: Path) -> None:
    job = Followed(folder, slurm, (slurm / "queue").unlink, lambda: None, lambda: None)
    last = "it does not fit; take more --nodes"
    job.paths.job_log("41").write_text(f"much\nhpcsci: {last}\n")
    job.queue("RUNNING", node="n1")
    with pytest.raises(ServingError, match=rf"job 41 [^:]*: {last}"):
        job.follower().until_ready()


def test_interrupted_the_job_is_ended_by_its_name(folder: Path, slurm: Path) -> None:
    job = Followed(folder, slurm, Interrupted("stopped by SIGINT"))
    job.queue("PENDING", "Priority")
    with pytest.raises(Interrupted):
        job.follower().until_ready()
    standalone.end_job(Slurm(), job.paths, job.request)
    assert (slurm / "cancelled").read_text().split()[-1] == "41"


def test_a_running_job_is_told_to_end_before_it_is_cancelled(folder: Path, slurm: Path) -> None:
    job = Followed(folder, slurm)
    job.queue("RUNNING", node="n1")
    standalone.end_job(Slurm(), job.paths, job.request)
    # Its batch process alone: `scancel` would have the steps of its nodes killed outright.
    assert (slurm / "cancelled").read_text() == "--quiet --batch --signal=USR1 41\n"


def test_no_key_is_shown_and_the_lines_are_whole(folder: Path) -> None:
    request = standalone.check(["vllm:small"], Settings(), folder)
    request = request.model_copy(update={"login": "login1.site"})
    paths = ServingPaths(folder / "my plane")
    paths.root.mkdir()
    paths.key.write_text("secret" * 10)
    lines = standalone.access_lines(paths, ENDPOINT, request.login, "me", "41")
    text = "\n".join(lines)
    assert "secret" not in text
    assert "ssh -N -L 20008:127.0.0.1:20008 me@n1" in text
    assert "ssh -N -J me@login1.site -L 20008:127.0.0.1:20008 me@n1" in text
    # The shell's own words: the key goes to curl in a file, and stands in no process list.
    curl = next(line for line in lines if "curl" in line).partition(":")[2]
    shell = f'curl() {{ printf \'<%s>\\n\' "$@"; cat "${{4#@}}"; }}; {curl}'
    done = subprocess.run(
        ["/bin/bash", "-c", shell],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    *words, header = done.stdout.splitlines()
    assert words[3].startswith("<@/")
    assert words[1] == f"<{ENDPOINT.url}/chat/completions>"
    assert "secret" not in "".join(words)
    assert header == f"Authorization: Bearer {'secret' * 10}"


@pytest.mark.parametrize(
    ("node", "said"),
    [("", "`srun --overlap"), ("n2", "first node, n1")],
)
def test_in_a_job_it_wants_the_first_node(
    node: str,
    said: str,
    folder: Path,
    slurm: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, words in (("squeue", "n[1-2]"), ("scontrol", "n1 n2")):
        (slurm / name).write_text(f"#!/bin/sh\necho '{words}'\n")
        (slurm / name).chmod(0o755)
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    if node:
        monkeypatch.setenv("SLURMD_NODENAME", node)
    arguments = ["serve", "--model", "vllm:small", "--site", "../site.toml", "--dir", "d"]
    assert run(arguments) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert said in err
    assert made(folder) == []
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert run([*arguments, "--nodes", "1"]) == 2
    assert re.search(r"--nodes 1: .*\binside\b", capsys.readouterr().err)
