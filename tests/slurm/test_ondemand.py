"""The Open OnDemand app: its files are what OnDemand reads, and its job serves the report."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml
from drawn_campaigns import draw

APP = Path(__file__).parents[2] / "slurm" / "ondemand"
PASSWORD = "a" * 32
MAIN = "from hpcscientist.cli.main import main; main()"


def rendered(campaign: str, hpcsci: str, every: int) -> str:
    """The job's script as ERB makes it of the form's values."""
    values = {"hpcsci": shlex.quote(hpcsci), "every": str(every), "campaign": campaign}
    text = (APP / "template" / "script.sh.erb").read_text()

    def value(found: re.Match[str]) -> str:
        return next(values[name] for name in values if f"context.{name}" in found[0])

    return re.sub(r"<%=.*?%>", value, text)


def test_the_app_is_one_that_ondemand_reads() -> None:
    manifest = yaml.safe_load((APP / "manifest.yml").read_text())
    assert manifest["role"] == "batch_connect"
    form = yaml.safe_load((APP / "form.yml").read_text())
    asked = set(re.findall(r"context\.(\w+)", (APP / "template" / "script.sh.erb").read_text()))
    assert asked <= set(form["form"])
    assert {name for name in form["attributes"] if not name.startswith("bc_")} == asked
    submit = yaml.safe_load((APP / "submit.yml.erb").read_text())
    assert submit["batch_connect"]["template"] == "basic"


@pytest.mark.skipif(not shutil.which("erb"), reason="no erb here: the templates are not rendered")
@pytest.mark.parametrize("campaign", ["/a/run", "'/a b/run' /c/run"])
def test_erb_renders_the_script(campaign: str) -> None:
    context = (
        "require 'ostruct'; context = OpenStruct.new("
        f"campaign: {campaign!r}, hpcsci: 'hpcsci; x', every: '30')"
    )
    script = APP / "template" / "script.sh.erb"
    done = subprocess.run(
        ["ruby", "-rerb", "-e", f"{context}; puts ERB.new(File.read('{script}')).result(binding)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "HPCSCI=hpcsci\\;\\ x" in done.stdout
    assert subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=False).returncode == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fetched(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError:
        return 0, ""


def test_its_job_serves_the_report_to_whoever_knows_the_password(tmp_path: Path) -> None:
    paths, port = draw(tmp_path / "a campaign", 4), free_port()
    command = tmp_path / "hpcsci"
    command.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c '{MAIN}' \"$@\"\n",
    )
    command.chmod(0o755)
    script = tmp_path / "script.sh"
    script.write_text(rendered(shlex.quote(str(paths.root)), str(command), 5))
    environment = {"host": "127.0.0.1", "port": str(port), "password": PASSWORD}
    job = subprocess.Popen(
        ["bash", str(script)],
        env=os.environ | environment | {"TMPDIR": str(tmp_path)},
        start_new_session=True,
    )
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            status, page = fetched(f"{address}/{PASSWORD}/report.html")
            if status == 200 or job.poll() is not None:
                break
            time.sleep(0.1)
        assert status == 200
        assert "drawn-1" in page
        assert "Content-Security-Policy" in page
        assert fetched(f"{address}/") == (200, "")  # no list of what is there
        assert fetched(f"{address}/report.html")[0] == 404
    finally:
        os.killpg(job.pid, signal.SIGTERM)
        job.wait(30)
    assert not list(tmp_path.glob("campaign-report.*"))
