"""The image of tests and trials: a minimal Debian with Python and NumPy, built once."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from devlib import packages
from devlib.base import Failed, run, with_variables
from devlib.places import Places

_INCLUDED = "python3-minimal,python3-numpy"


def path(places: Places) -> Path:
    """Return where the image is, or will be."""
    return places.cache / "experiment.sif"


def build(places: Places) -> Path:
    """Return the image's path; build it unless it is there. Raises Failed."""
    image = path(places)
    if image.exists():
        return image
    places.cache.mkdir(parents=True, exist_ok=True)
    # Not in /tmp, which may be small or forbid devices.
    with tempfile.TemporaryDirectory(prefix="image-", dir=places.cache) as folder:
        root, new = Path(folder) / "root", Path(folder) / "new.sif"
        argv: list[str | Path] = [
            "debootstrap",
            "--variant=minbase",
            f"--include={_INCLUDED}",
            _suite(),
            root,
        ]
        run(
            [*argv, packages.debian_archive()],
            with_variables(packages.proxy_environment()),
            timeout=1800,
        )
        for litter in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man"):
            shutil.rmtree(root / litter, ignore_errors=True)
            (root / litter).mkdir()
        # Nothing of this machine: a container gets its own.
        (root / "etc/hostname").unlink(missing_ok=True)
        private = {"APPTAINER_TMPDIR": folder, "APPTAINER_CACHEDIR": f"{folder}/cache"}
        run(["apptainer", "--silent", "build", new, root], with_variables(private), timeout=1800)
        new.chmod(0o644)
        new.rename(image)
    return image


def _suite() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        name, _, value = line.partition("=")
        if name == "VERSION_CODENAME" and value:
            return value.strip('"')
    raise Failed("/etc/os-release names no release: use a stable Debian")
