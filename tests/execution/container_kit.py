"""What tests in real containers need: Apptainer, and an image that HPCSCI_TEST_IMAGE names.

The image needs python3 and numpy, as containers/experiment.def has them.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import psutil
import pytest

needs_container = [
    pytest.mark.apptainer,
    pytest.mark.skipif(
        shutil.which("apptainer") is None or "HPCSCI_TEST_IMAGE" not in os.environ,
        reason="NOT TESTED: real containers, for lack of apptainer or of HPCSCI_TEST_IMAGE",
    ),
]


_FOLDER = tempfile.gettempdir()  # some tests change it


@cache
def image() -> str:
    """Return the image under a name of this session's own, by which its processes are known."""
    folder = Path(tempfile.mkdtemp(prefix="hpcsci-test-", dir=_FOLDER))
    atexit.register(shutil.rmtree, folder)
    folder.chmod(0o755)
    link = folder / f"{folder.name}.sif"
    link.symlink_to(Path(os.environ["HPCSCI_TEST_IMAGE"]).absolute())
    return str(link)


def image_processes() -> list[psutil.Process]:
    """Return the live processes that name the image: Apptainer's own, in whatever role."""
    name = Path(image()).name
    return [p for p in psutil.process_iter(["cmdline"]) if name in str(p.info["cmdline"])]
