"""What a build replaced, and how long it stays for those who have it open.

Who opened a library goes on with the files that were named then, a campaign for days, however
often the library is built again meanwhile. So files stay for a time after they were replaced,
and readers need not hold them open: on NFS that would not keep what another machine removes,
and whoever had mapped it would be ended by the kernel. A record lists files of one edition; its
time, which is the file server's, says since when they are replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterable
from pathlib import Path

from hpcscientist.errors import LibraryError
from hpcscientist.literature.library.files.paths import LibraryPaths, make_folder, write_file

DAYS = 14


def retire(paths: LibraryPaths, files: Iterable[str]) -> None:
    """Note that files, named from the library's folder, are about to be replaced.

    It comes before what replaces them, so that a build which is killed in between loses none.
    Raises DiskFull and LibraryError.
    """
    names = sorted(files)
    make_folder(paths.superseded)
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
    write_file(paths.superseded / f"{digest}.json", (json.dumps(names, indent=0) + "\n").encode())


def kept(paths: LibraryPaths) -> set[str]:
    """Return the files that were replaced in the last `DAYS`; older records are removed.

    Raises LibraryError where it cannot be told.
    """
    found: set[str] = set()
    try:
        for record in _records(paths):
            if time.time() - record.stat().st_mtime > DAYS * 86_400:
                record.unlink()
                continue
            with contextlib.suppress(ValueError, TypeError):  # damaged
                found.update(map(str, json.loads(record.read_bytes())))
    except OSError as error:
        raise LibraryError(f"{paths.superseded}: cannot be read: {error.strerror}") from error
    return found


def forget(paths: LibraryPaths) -> None:
    """Keep nothing any longer of what was replaced so far."""
    for record in _records(paths):
        record.unlink(missing_ok=True)


def is_replaced(paths: LibraryPaths) -> LibraryError:
    """Return the error for a reader whose files are gone since others took their place."""
    return LibraryError(
        f"{paths.root}: was built again, and what this process had opened is not kept any more: "
        "start it again; a campaign goes on with `hpcsci resume`"
    )


def _records(paths: LibraryPaths) -> list[Path]:
    return sorted(paths.superseded.iterdir()) if paths.superseded.is_dir() else []
