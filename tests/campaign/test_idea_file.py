from __future__ import annotations

from pathlib import Path

import pytest

from hpcscientist.campaign.proposals.idea_file import known_idea, read_idea
from hpcscientist.errors import RunDirectoryError


def test_an_idea_that_was_recorded_is_there_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "idea.json"
    assert read_idea(path) is None
    with pytest.raises(RunDirectoryError, match=f"{path}: .*gone"):
        known_idea(path)
    path.write_text("{}")
    for read in (read_idea, known_idea):
        with pytest.raises(RunDirectoryError, match=f"{path}: .*damaged"):
            read(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(RunDirectoryError, match=f"{path}: .*read: "):
        known_idea(path)
