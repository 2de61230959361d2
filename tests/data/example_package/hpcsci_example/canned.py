"""A model: the replies of a file, whatever is asked in which role."""

from __future__ import annotations

from pathlib import Path

from hpcscientist.config.settings import ClientSettings
from hpcscientist.models.playbook import PlaybookModel
from hpcscientist.ports import Model


def model(file: str, settings: ClientSettings) -> Model:
    return PlaybookModel(Path(file))
