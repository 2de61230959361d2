"""Following a campaign that runs: what was appended is seen, and nothing is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn_campaigns import START, draw
from rich.console import Console

from hpcscientist.errors import NoRunDirectory
from hpcscientist.files.rundir import RunPaths
from hpcscientist.history.status import DriverLock
from hpcscientist.report.live import screen
from hpcscientist.views import campaign
from hpcscientist.views.live import LiveFollower, Snapshot


def snapshot_of(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in folder.rglob("*")
    }


@pytest.fixture
def growing(tmp_path: Path) -> tuple[RunPaths, list[bytes]]:
    """A campaign of which the journal holds no more than its first lines, and the others."""
    paths = draw(tmp_path, 12, titles=("a \x1b[31mred\u202e title",))
    lines = paths.journal.read_bytes().splitlines(keepends=True)
    # Group marks: each of these lines may be the first of what was written together.
    paths.journal.write_bytes(b"".join(lines[:40]))
    return paths, lines


def test_what_is_appended_is_seen_and_nothing_is_written(
    growing: tuple[RunPaths, list[bytes]],
) -> None:
    paths, lines = growing
    now = [START + 60.0]
    follower = LiveFollower(paths, lambda: now[0])
    before = snapshot_of(paths.root)
    first = follower.look()
    assert snapshot_of(paths.root) == before
    with paths.journal.open("ab") as file:
        file.write(b"".join(lines[40:]))
    now[0] += 1e6  # also past the time for which judging rests
    last = follower.look()
    view = campaign.read(paths)
    assert sum(first.ideas.values()) < sum(last.ideas.values()) == 12
    assert last.state == "finished"
    assert last.tokens == view.spending.tokens
    assert last.improved == view.spending.found.improvements
    assert last.confirmed == view.spending.found.confirmed
    assert last.best is not None
    rows = {row.idea_id: row for row in view.rows}
    assert last.best.comparison.delta == rows[last.best.idea_id].delta
    assert last.best.confirmed == rows[last.best.idea_id].confirmed


def test_a_journal_of_which_lines_were_taken_back_is_read_anew(
    growing: tuple[RunPaths, list[bytes]],
) -> None:
    paths, lines = growing
    follower = LiveFollower(paths, lambda: START + 60.0)
    follower.look()
    paths.journal.write_bytes(b"".join(lines[:30]))
    again = follower.look()
    fresh = LiveFollower(paths, lambda: START + 60.0).look()
    assert again == fresh


def test_what_a_driver_runs_is_running_and_its_end_is_guessed(
    growing: tuple[RunPaths, list[bytes]],
) -> None:
    paths, lines = growing
    started = max(n for n, line in enumerate(lines) if b'"trial_started"' in line)
    paths.journal.write_bytes(b"".join(lines[: started + 1]))
    lock = DriverLock(paths.lock)
    try:
        shot = LiveFollower(paths, lambda: START + 900.0).look()
    finally:
        lock.release()
    assert shot.state == "running"
    budget = campaign.read(paths).recipe.budgets.full.seconds
    assert [trial.limit_s for trial in shot.running] == [budget]
    ended = shot.planned - shot.ideas["open"]
    assert shot.end_s == pytest.approx((shot.planned - ended) * shot.elapsed_s / ended, rel=0.1)


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (60, 15), (200, 60)])
def test_the_screen_fits_and_has_no_colour(
    growing: tuple[RunPaths, list[bytes]], columns: int, lines: int
) -> None:
    paths, all_lines = growing
    paths.journal.write_bytes(b"".join(all_lines))
    shot = LiveFollower(paths).look()
    text = drawn(shot, columns, lines)
    assert len(text.splitlines()) <= lines
    assert max(map(len, text.splitlines())) <= columns
    assert "12/12" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def drawn(shot: Snapshot, columns: int, lines: int) -> str:
    console = Console(
        width=columns, height=lines, no_color=True, color_system=None, force_terminal=False
    )
    with console.capture() as capture:
        console.print(screen(shot, columns, lines))
    return capture.get()


def test_a_folder_without_a_campaign_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoRunDirectory):
        LiveFollower(RunPaths(tmp_path))


def test_a_run_directory_that_cannot_be_written_is_watched(
    growing: tuple[RunPaths, list[bytes]],
) -> None:
    paths, _ = growing
    for path in (paths.root, paths.journal):
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        assert LiveFollower(paths).look().planned == 12
    finally:
        paths.root.chmod(0o700)
