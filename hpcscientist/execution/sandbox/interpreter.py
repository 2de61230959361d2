"""The Python that candidates run in: the driver's own, or the one in their image."""

from __future__ import annotations

import os

from hpcscientist.execution.sandbox.container import python_command
from hpcscientist.records.trial import Isolation
from hpcscientist.system.interpreter import Interpreter


def of_candidates(isolation: Isolation, image: str | None, python: str) -> Interpreter:
    """Return what can be asked of it; `python` is what runs candidates without an image.

    A driver that has no Apptainer, or does not see the image, is not answered.
    """
    if isolation is Isolation.NONE:
        return Interpreter((python,))
    return Interpreter(python_command(image, os.geteuid() == 0) if image else None)
