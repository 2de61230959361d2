"""Can ideas be compared as configured? By an embedding model, or by keywords without one."""

from __future__ import annotations

from pathlib import Path

from hpcscientist.config.settings import Settings
from hpcscientist.doctor.check import Check, missing, ok
from hpcscientist.errors import ModelError
from hpcscientist.launching import embedder_choice
from hpcscientist.models.embedding.sentences import INSTALL, KEYWORDS, installed, open_embedder

_NAME = "likeness"


def check(settings: Settings) -> Check:
    """Return the line of the embedder; a model that is configured is opened and tried here."""
    release = installed()
    library = f"sentence-transformers {release}" if release else "sentence-transformers"
    settled = embedder_choice.settle(settings, Path.cwd())
    if settled.embedding.model in ("", KEYWORDS):
        stands = "is installed, and unused" if release else f"is not installed ({INSTALL})"
        return ok(_NAME, f"keyword vectors: embedding.model names no folder; {library} {stands}")
    try:
        embedder = open_embedder(settled.embedding)
    except ModelError as error:
        return missing(
            _NAME, str(error), f'mend that, or set embedding.model to "keywords"; {INSTALL}'
        )
    return ok(_NAME, f"{embedder_choice.statement(embedder, elsewhere=False)}; {library}")
