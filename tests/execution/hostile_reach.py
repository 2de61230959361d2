"""Candidates that reach for labels, the scorer, other trials, the network."""

from __future__ import annotations

from hostile_kit import Hostile, nothing_left

_NO_FILE = r"(FileNotFoundError|NotADirectoryError|PermissionError).*{}"
_NO_WAY = (
    r"(ConnectionRefusedError|TimeoutError|OSError|gaierror).*(refused|unreachable|resol|timed)"
)

LABELS = (
    Hostile(
        "labels-by-path",
        "predict(LABELS.read_text())",
        "error",
        _NO_FILE.format(r"labels\.csv"),
    ),
    Hostile(
        "labels-by-search",
        """
        honest()
        for folder, folders, files in os.walk("/"):
            if folder in ("/proc", "/sys"):
                folders[:] = []
            for name in files:
                if name in ("labels.csv", "score.py", "spec.json", "worker.json", "campaign.toml"):
                    predict(pathlib.Path(folder, name).read_text())
        """,
        "scored",
    ),
    Hostile(
        "labels-by-symlink",
        "(OUT / 'predictions.csv').symlink_to(LABELS)",
        "tampering",
        r"predictions\.csv is a symbolic link",
        check=nothing_left,
    ),
    Hostile(
        "labels-by-folder",
        "OUT.joinpath('x').symlink_to(LABELS.parent)\n"
        "os.rename(OUT / 'x', OUT / 'predictions.csv')",
        "tampering",
        "symbolic link",
        check=nothing_left,
    ),
    Hostile(
        "labels-through-proc",
        """
        honest()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            roots = [f"/proc/{pid}/root", f"/proc/{pid}/cwd"]
            roots += [f"/proc/{pid}/fd/{n}" for n in unnoticed(os.listdir, f"/proc/{pid}/fd") or ()]
            for root in roots:
                for path in (LABELS, LABELS.name):
                    found = unnoticed(pathlib.Path(f"{root}/{path}").read_text)
                    if found:
                        predict(found)
            for name in ("environ", "cmdline"):
                told = unnoticed(pathlib.Path(f"/proc/{pid}/{name}").read_text) or ""
                if "secret" in told or str(LABELS.parent) in told or str(SCORER) in told:
                    raise SystemExit(f"it knows by {name}: {told}")
        """,
        "scored",
    ),
    Hostile(
        "keys-in-the-environment",
        """
        assert not [value for value in os.environ.values() if "secret" in value], os.environ
        for name in os.environ:
            assert not name.startswith(("SLURM", "APPTAINER", "SINGULARITY")), name
        honest()
        """,
        "scored",
    ),
)

SCORER = (
    Hostile(
        "imports-the-scorer",
        "sys.path.insert(0, str(SCORER.parent))\nimport score",
        "error",
        "ModuleNotFoundError: No module named 'score'",
    ),
    Hostile(
        "patches-the-scorer",
        "SCORER.write_text('print(1)')",
        "error",
        _NO_FILE.format(r"score\.py"),
    ),
    Hostile(
        "plants-modules-for-the-scorer",
        """
        for place in (OUT, pathlib.Path("/work"), pathlib.Path("/tmp")):
            for name in ("json", "argparse", "sitecustomize", "usercustomize", "re"):
                text = "print('{\\"accuracy\\": 1.0}'); raise SystemExit"
                (place / f"{name}.py").write_text(text)
        honest()
        """,
        "scored",
    ),
    Hostile(
        "says-its-own-score",
        """
        print('{"accuracy": 1.0, "balanced_error": 0.0}', flush=True)
        for name in ("result.json", "result.arrow", "spec.json", "worker.json"):
            note(name, '{"accuracy": 1.0, "run": 99}')
        honest()
        """,
        "scored",
    ),
    Hostile(
        "writes-its-own-result",
        "honest()\n(TRIAL / 'result.arrow').write_bytes(b'ARROW1')",
        "error",
        r"OSError.*(Read-only|Permission).*result\.arrow|PermissionError.*result\.arrow",
    ),
)

OTHERS = (
    Hostile(
        "reads-another-trial",
        "predict((OTHER / 'out' / 'predictions.csv').read_text())",
        "error",
        _NO_FILE.format(r"predictions\.csv"),
    ),
    Hostile(
        "writes-into-another-trial",
        "(OTHER / 'out' / 'predictions.csv').write_text('damaged')",
        "error",
        _NO_FILE.format(r"predictions\.csv"),
    ),
    Hostile(
        "spoils-code-and-data",
        """
        for path in ("/data/train/images.csv", "/code/experiment.py", "/usr/bin/env"):
            for act in (os.unlink, lambda p: os.chmod(p, 0o777), lambda p: open(p, "w")):
                assert unnoticed(act, path) is None and os.path.exists(path), path
        os.unlink("/data/train/images.csv")
        """,
        "error",
        r"(Read-only|Permission).*images\.csv",
    ),
    Hostile(
        "writes-below-proc-sys",
        "open('/proc/sys/kernel/core_pattern', 'w').write('|/tmp/x')",
        "error",
        "(Read-only|Permission).*core_pattern",
    ),
)

NETWORK = (
    Hostile("network-loopback", "call(LOOPBACK)", "error", _NO_WAY),
    Hostile("network-node", "call(NODE)", "error", _NO_WAY),
    Hostile("network-controller", "call(CONTROLLER)", "error", _NO_WAY),
    Hostile("network-names", "call(('example.org', 80))", "error", r"gaierror|resol"),
)
