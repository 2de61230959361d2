"""What a bare machine lacks: Debian's packages, and Apptainer from Debian's unstable suite.

Debian 12 has no Apptainer, and unstable's wants a newer C library. So it is unpacked with
its libraries into a folder of its own, and its two programs are told to use those. All comes
through apt, from the archive that the machine's own sources name, signatures checked.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devlib.base import Failed, run, say, with_variables

_SLURM = ("slurm-wlm", "slurmdbd", "mariadb-server", "munge", "iproute2", "util-linux", "passwd")
_APPTAINER = ("squashfs-tools", "squashfuse", "fuse3", "fuse2fs", "fuse-overlayfs", "uidmap")
_BUILD = ("debootstrap", "patchelf", "ca-certificates")
PACKAGES = (*_SLURM, *_APPTAINER, *_BUILD)

_UNPACKED = ("apptainer", "libc6", "libseccomp2", "libsqlite3-0", "libgcc-s1")
_FOLDER = Path("/usr/local/lib/hpcsci-apptainer")
_COMMAND = Path("/usr/local/bin/apptainer")
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_POLICY = Path("/usr/sbin/policy-rc.d")
_QUIET = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l"}
_WAIT = ("-o", "DPkg::Lock::Timeout=600")  # another apt may be at work


def install() -> None:
    """Install what is missing. Raises Failed."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-query") is None:
        raise Failed("this machine has no apt: use Debian 12 or newer, or a machine of it")
    missing = [name for name in PACKAGES if not _is_installed(name)]
    if missing:
        say(f"installing {' '.join(missing)}")
        with _services_not_started():
            run(["apt-get", "-q", *_WAIT, "update"], environment=with_variables(_QUIET))
            argv = ["apt-get", "-qy", *_WAIT, "install", "--no-install-recommends", *missing]
            run(argv, timeout=1800, environment=with_variables(_QUIET))
    if shutil.which("apptainer") is None and not _COMMAND.exists():
        say("installing Apptainer")
        _install_apptainer()


def debian_archive() -> str:
    """Return the address of Debian's archive by this machine's apt sources. Raises Failed."""
    wanted = ["Identifier: Packages", "Label: Debian", "Component: main"]
    argv = ["apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted]
    found = run(argv).stdout.split()
    if not found:
        run(["apt-get", "-q", "update"], environment=with_variables(_QUIET))
        found = run(argv).stdout.split()
    if not found:
        raise Failed("apt's sources name no Debian archive: add one, or install apptainer yourself")
    return found[0]


def proxy_environment() -> dict[str, str]:
    """Return apt's proxy as variables, for programs that fetch by themselves."""
    found = {}
    for scheme in ("http", "https"):
        words = run(["apt-config", "shell", "P", f"Acquire::{scheme}::Proxy"]).stdout.strip()
        value = words.partition("=")[2].strip("'\"")
        if value and value != "DIRECT":
            found[f"{scheme}_proxy"] = value
    return found


def _is_installed(package: str) -> bool:
    done = run(["dpkg-query", "-W", "-f", "${db:Status-Status}", package], check=False)
    return done.stdout == "installed"


@contextmanager
def _services_not_started() -> Iterator[None]:
    """Keep apt from starting the machine-wide daemons of what it installs."""
    if os.path.lexists(_POLICY):  # the machine has a policy of its own
        yield
        return
    _POLICY.write_text("#!/bin/sh\nexit 101\n")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink(missing_ok=True)


def _install_apptainer() -> None:
    with tempfile.TemporaryDirectory(prefix="hpcsci-apptainer-") as folder:
        packages = _download(Path(folder))
        root = Path(folder) / "root"
        for package in packages:
            run(["dpkg-deb", "-x", package, root])
        # Below one prefix: Apptainer finds all of it relative to its two programs.
        for name in ("etc", "var"):
            (root / name).rename(root / "usr" / name)
            (root / "usr/lib" / name).symlink_to(f"../{name}")  # seen from its starter
        shutil.rmtree(_FOLDER, ignore_errors=True)
        shutil.copytree(root, _FOLDER, symlinks=True)
    _FOLDER.chmod(0o755)
    (libraries,) = (_FOLDER / "usr" / "lib").glob("*-linux-gnu*")
    (loader,) = (p for p in libraries.glob("ld-linux*.so.*"))
    for program in (_FOLDER / "usr/bin/apptainer", libraries / "apptainer/bin/starter"):
        run(["patchelf", "--set-interpreter", loader, program])
        run(["patchelf", "--force-rpath", "--set-rpath", libraries, program])
    _COMMAND.write_text(f'#!/bin/sh\nexec {_FOLDER}/usr/bin/apptainer "$@"\n')
    _COMMAND.chmod(0o755)
    run([_COMMAND, "--version"])


def _download(folder: Path) -> list[Path]:
    """Fetch unstable's packages by an apt of its own state; the machine's is not touched."""
    signed = f" [signed-by={_KEYRING}]" if _KEYRING.exists() else ""
    (folder / "sources.list").write_text(f"deb{signed} {debian_archive()} unstable main\n")
    for name in ("state/lists/partial", "cache/archives/partial", "debs"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    options = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    run(["apt-get", "-q", *words, "update"], environment=with_variables(_QUIET))
    # `download` writes where it stands.
    shell = 'cd "$0" && exec apt-get -q "$@"'
    run(
        ["sh", "-c", shell, folder / "debs", *words, "download", *_UNPACKED],
        environment=with_variables(_QUIET),
    )
    found = sorted((folder / "debs").glob("*.deb"))
    if len(found) != len(_UNPACKED):
        raise Failed(
            f"{debian_archive()} gave {len(found)} of {len(_UNPACKED)} packages: try again"
        )
    return found
