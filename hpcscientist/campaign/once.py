"""Results that are made once and kept in a file of the run directory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from hpcscientist.campaign.integrity import FileIntegrity
from hpcscientist.errors import RunDirectoryError
from hpcscientist.files.atomic import write_text
from hpcscientist.files.handed import read_regular

V = TypeVar("V", bound=BaseModel)


async def once(
    path: Path, kind: type[V], make: Callable[[], Awaitable[V]], integrity: FileIntegrity | None
) -> V:
    """Return the content of a file; if the file is missing, make the content and write it.

    Raises RunDirectoryError if the file is damaged.
    """
    if integrity is not None:
        integrity.check(path, recorded=False)
    try:
        return kind.model_validate_json(read_regular(path, follow=False))
    except FileNotFoundError:
        pass
    except (OSError, ValidationError) as error:
        raise RunDirectoryError(
            f"{path}: is damaged; delete it, and it is made again from the recorded replies"
        ) from error
    made = await make()
    path.parent.mkdir(parents=True, exist_ok=True)
    text = made.model_dump_json(indent=2) + "\n"
    write_text(path, text)
    if integrity is not None:
        integrity.keep(path, text)
    return made
