"""The embedder that finds similar ideas: chosen at launch, and the same at every resume."""

from __future__ import annotations

from pathlib import Path

from hpcscientist.config.settings import Settings
from hpcscientist.errors import ModelError, RunDirectoryError
from hpcscientist.files.handed import expanded
from hpcscientist.history.frozen import CampaignConfig
from hpcscientist.models.embedding.sentences import KEYWORDS, open_embedder, packaged
from hpcscientist.ports import Embedder
from hpcscientist.records.events import NoteTaken


def settle(settings: Settings, folder: Path) -> Settings:
    """Return the settings with an absolute path of the embedding model, so that resumes find it.

    If no model is named and a language model proposes, the packaged embedding model is used, if it
    is installed. Campaigns with recorded replies keep keyword vectors, as when they were recorded.
    """
    model = settings.embedding.model
    recorded = settings.model in ("", "search") or settings.model.split(":")[0] == "playbook"
    found = None if model or recorded else packaged()
    if found is None and model in ("", KEYWORDS):
        return settings
    path = found or (folder / expanded(model)).absolute()
    embedding = settings.embedding.model_copy(update={"model": str(path)})
    return settings.model_copy(update={"embedding": embedding})


def statement(embedder: Embedder | None, elsewhere: bool) -> str:
    """Return the embedder's line in the header; `elsewhere`: a Slurm job will drive the campaign.

    None stands for the control arm, which compares no texts.
    """
    if embedder is None:
        return "equal knobs: the control arm's texts are not compared"
    if embedder.device is None:
        return embedder.name
    if elsewhere:
        return f"{embedder.name} on {embedder.device} here; in the job on cuda if it has a GPU"
    return f"{embedder.name} on {embedder.device}"


def note(config: CampaignConfig, embedder: Embedder | None) -> NoteTaken | None:
    """Return a note on the embedder's device for the journal, if a Slurm job drives; else None.

    The header could not know the job's device.
    """
    if not config.settings.nodes or embedder is None or embedder.device is None:
        return None
    text = f"likeness: {embedder.name} on {embedder.device}"
    return NoteTaken(name=text, text=text)


def reopen(config: CampaignConfig, opened: Embedder | None = None) -> Embedder:
    """Return a campaign's embedder; `opened` is the one that its launch opened in this process.

    Raises ModelError, or RunDirectoryError if it is not the embedder of the launch.
    """
    model = config.settings.embedding.model
    try:
        embedder = opened or open_embedder(config.settings.embedding)
    except ModelError as error:
        raise ModelError(f"this campaign compares ideas by {config.embedder}: {error}") from error
    if (embedder.name, embedder.fingerprint) == (config.embedder, config.embedder_hash):
        return embedder
    if embedder.name == config.embedder and model not in ("", KEYWORDS):
        what = f"{model}: is not the embedding model of the launch: its files were changed"
    elif embedder.name == config.embedder:
        raise RunDirectoryError(
            "ideas were compared by keyword vectors of another version; resume with the version "
            "in campaign.toml, or launch a new campaign"
        )
    else:
        what = f"embedding.model: ideas were compared by {config.embedder}, not by {embedder.name}"
    raise RunDirectoryError(f"{what}; restore what was there, or launch a new campaign")
