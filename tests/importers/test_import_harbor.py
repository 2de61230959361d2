"""A task folder of Harbor: its schema, its container, and its tests as a scorer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from import_kit import draft_of, told, write

from hpcscientist.errors import RecipeError
from hpcscientist.importers import harbor
from hpcscientist.importers.draft import Fate
from hpcscientist.recipe.checks.check import check

TASK: dict[str, str | bytes] = {
    "task.toml": """\
schema_version = "1.1"
[task]
name = "acme/sorting"
keywords = ["algorithms"]
[verifier]
timeout_sec = 60.0
[agent]
timeout_sec = 120.0
[environment]
cpus = 2
memory = "3G"
""",
    "instruction.md": "Sort numbers.txt into sorted.txt.\n",
    "environment/Dockerfile": """\
FROM python:3.12-slim
ARG LEVEL=3
ENV MODE=test NAME="a b"
WORKDIR /app
COPY order.py numbers.txt ./
COPY picture.bin data/
RUN python3 -c "print('ready')" && \\
    # a comment
    true
CMD ["bash"]
""",
    "environment/order.py": "print('nothing yet')\n",
    "environment/numbers.txt": "3\n1\n2\n",
    "environment/picture.bin": b"\xff\x00\x01",
    "tests/test.sh": """\
mkdir -p /logs/verifier
want=$(sort -n /app/numbers.txt)
[ "$(cat /app/sorted.txt 2>/dev/null)" = "$want" ] && r=1 || r=0
echo $r > /logs/verifier/reward.txt
""",
    "solution/solve.sh": "sort -n numbers.txt > sorted.txt\n",
}


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return write(tmp_path / "sorting", TASK)


def test_a_task_is_a_recipe(task: Path, tmp_path: Path) -> None:
    draft = draft_of("harbor", task, tmp_path / "made")
    draft.write()
    assert check(tmp_path / "made") == []
    document = draft.document
    assert document["resources"]["memory_mb"] == 3072
    assert document["resources"]["cpus"] == 2
    assert document["budgets"]["full"] == {"seconds": 120.0}
    assert document["scorer"]["seconds"] == 120.0
    assert sorted(document["editable"]) == ["numbers.txt", "order.py", "solve.sh"]
    assert not any(content[-11:] == b"sorted.txt\n" for content in draft.files.values()), (
        "the answer"
    )
    assert set(told(draft, Fate.LOST)) >= {"solution", "network", "environment/picture.bin"}


def test_a_dockerfile_becomes_a_definition() -> None:
    found = harbor.read_containerfile(str(TASK["environment/Dockerfile"]))
    assert (found.base, found.workdir, found.refused) == ("python:3.12-slim", "/app", [])
    assert found.variables == {"MODE": "test", "NAME": "a b"}
    assert found.copied == [
        ("order.py", "/app/"),
        ("numbers.txt", "/app/"),
        ("picture.bin", "/app/data/"),
    ]
    text = found.text("environment")
    assert "From: python:3.12-slim\n" in text
    assert "export NAME='a b'" in text
    assert "comment" not in text
    assert [what.split()[0] for what in found.lost] == ["CMD"]


@pytest.mark.parametrize(
    "line",
    [
        "FROM other",
        "COPY --from=builder a b",
        "COPY ../secret /app",
        "ADD https://example.org/x /app",
        "RUN <<EOF",
        'SHELL ["a"]',
        "COPY onlyone",
    ],
)
def test_what_a_definition_cannot_say_is_refused(line: str, task: Path) -> None:
    write(task, {"environment/Dockerfile": f"FROM a\n{line}\n"})
    assert told(draft_of("harbor", task), Fate.REFUSED) == ["environment/Dockerfile"]


@pytest.mark.parametrize(
    ("files", "refused"),
    [
        ({"environment/docker-compose.yaml": "services: {}"}, ["environment/docker-compose.yaml"]),
        ({"environment/Dockerfile": ""}, ["environment/Dockerfile"]),
    ],
)
def test_refused(files: dict[str, str | bytes], refused: list[str], task: Path) -> None:
    write(task, files)
    assert told(draft_of("harbor", task), Fate.REFUSED) == refused


def test_an_image_by_name_needs_no_dockerfile(task: Path) -> None:
    (task / "environment" / "Dockerfile").unlink()
    assert told(draft_of("harbor", task), Fate.REFUSED) == ["environment"]
    text = str(TASK["task.toml"]) + 'docker_image = "acme/base:1"\n'
    write(task, {"task.toml": text})
    draft = draft_of("harbor", task)
    assert b"From: acme/base:1\n" in draft.files["environment.def"]


@pytest.mark.parametrize("text", ["x = ", "[environment]\nmemory = 'much'\n", "a" * 10])
def test_a_broken_task_file_is_one_error(text: str, task: Path) -> None:
    write(task, {"task.toml": text})
    with pytest.raises(RecipeError):
        draft_of("harbor", task)


def score(recipe: Path, archive: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", recipe / "score.py", "--predictions", archive]
    return subprocess.run(
        [*command, "--labels", recipe],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], **environment},
    )


def test_an_archive_that_leads_out_or_names_the_reward_is_refused(
    task: Path, tmp_path: Path
) -> None:
    recipe = tmp_path / "made"
    draft_of("harbor", task, recipe).write()
    plain = tmp_path / "plain.py"
    plain.write_text("open('/logs/verifier/' + 'x')\n")
    link = tmp_path / "link"
    link.symlink_to("/etc/passwd")
    for number, (path, name) in enumerate(
        [(plain, "plain.py"), (link, "link"), (recipe / "prepare.py", "../out.py")]
    ):
        archive = tmp_path / f"{number}.tar"
        with tarfile.open(archive, "w") as opened:
            opened.add(path, arcname=name)
        assert score(recipe, archive).returncode == 3


@pytest.mark.apptainer
def test_the_tasks_own_tests_score_in_a_container(task: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "made"
    draft_of("harbor", task, recipe).write()
    (recipe / "environment.sif").symlink_to(os.environ["HPCSCI_TEST_IMAGE"])
    for text, reward in (("1\n2\n3\n", 1.0), ("3\n1\n2\n", 0.0)):
        work = write(tmp_path / f"work{reward}", {"numbers.txt": "3\n1\n2\n", "sorted.txt": text})
        archive = tmp_path / f"{reward}.tar"
        with tarfile.open(archive, "w") as opened:
            opened.add(work, arcname=".")
        done = score(recipe, archive)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {"reward": reward}
