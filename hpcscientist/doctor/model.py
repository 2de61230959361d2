"""Checks of models: the weights, the serving engine, the GPUs they fit on, and the embedder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hpcscientist.config.settings import ServingSettings, Settings
from hpcscientist.doctor.check import CheckState, DoctorCheck, graded, missing, ok, warning
from hpcscientist.doctor.places import HERE, ServingPlace
from hpcscientist.errors import ModelError, ServingError, WeightsError
from hpcscientist.launching import embedder_choice
from hpcscientist.models.embedding.sentences import INSTALL, KEYWORDS, installed, open_embedder
from hpcscientist.models.open import parse_spec
from hpcscientist.models.serving.checking.interpreter import (
    ServingEngine,
    ask,
    command,
    is_tried,
    reason,
    said,
    tried,
)
from hpcscientist.models.serving.checking.tensors import resolve
from hpcscientist.models.serving.checking.weights import Checkpoint, require_whole
from hpcscientist.models.serving.checking.weights import check as check_weights
from hpcscientist.models.serving.fitting.drafting import names_of
from hpcscientist.models.serving.fitting.layout import Layout, Machine
from hpcscientist.models.serving.fitting.shares import Demand, doubt, lay_out_all
from hpcscientist.records.site import Site

_GIB = 2**30
_MOST_NODES = 64  # tried if no number of nodes is given
_OTHER = "give another --partition, more nodes, or a smaller model"


def served(settings: Settings) -> list[str]:
    """Return the names after `vllm:` of the models to serve. Raises ModelSpecError."""
    roles = (settings.ideation, settings.code, settings.review, *settings.roles.values())
    specs = dict.fromkeys(s for s in (settings.model, *(r.model for r in roles)) if s)
    parsed = [parse_spec(spec) for spec in specs]
    return [spec.name for spec in parsed if spec.kind == "vllm" and spec.name]


def folders(settings: Settings) -> Iterator[Path]:
    """Yield the folders of weights that exist; nodes must see them too."""
    for name in served(settings):
        try:
            yield resolve(name, os.environ, Path.cwd())
        except WeightsError:
            continue


def checks(settings: Settings, site: Site, places: Sequence[ServingPlace]) -> Iterator[DoctorCheck]:
    """Yield the checks of all models that would be served; nothing if there are none.

    Models with complete weights are laid out together, as a launch does.
    """
    names = served(settings)
    if not names:
        return
    python: Sequence[str] = ()
    try:
        python = command(site)
    except ServingError as error:
        yield missing("serving engine", str(error), "fix serving.python in the site profile")
    whole: dict[Path, Checkpoint] = {}  # a model named twice is served once: `drafting.names_of`
    for name in names:
        try:
            folder = resolve(name, os.environ, Path.cwd())
            require_whole(folder)
            read = ask(folder, python).config if python else None
            whole[folder] = check_weights(folder, read)
        except WeightsError as error:
            for problem in error.problems:
                yield missing(f"model {name}", problem, "fix that, then try again")
            continue
        yield weights(name, whole[folder])
    if python:
        for one in {checkpoint.architecture: checkpoint for checkpoint in whole.values()}.values():
            yield from engine(one, python, ask(Path(one.folder), python))
    if whole:
        yield from fits(tuple(whole.values()), places, settings)


def weights(name: str, checkpoint: Checkpoint) -> DoctorCheck:
    """Return the check of a model whose weights are complete."""
    kind = f", quantized ({checkpoint.quantization})" if checkpoint.quantization else ""
    found = (
        f"{checkpoint.folder}: {checkpoint.architecture}, {checkpoint.weight_bytes / _GIB:.2f} GiB "
        f"of {checkpoint.dtype}{kind}, context {checkpoint.context or 'without limit'}; weights, "
        "tokenizer and chat template are complete"
    )
    if checkpoint.remarks:
        return warning(
            f"model {name}", f"{found}; {'; '.join(checkpoint.remarks)}", "nothing is needed"
        )
    return ok(f"model {name}", found)


def engine(
    checkpoint: Checkpoint, python: Sequence[str], found: ServingEngine
) -> Iterator[DoctorCheck]:
    """Yield the check that the serving interpreter has vLLM and Ray, and knows the model."""
    why = reason(Path(checkpoint.folder), python, found)
    if why is None:
        together = "tried together" if is_tried(found) else f"not tried together: {tried()} were"
        yield ok(
            "serving engine",
            f"{said(python)}: vLLM {found.vllm} and Ray {found.ray} ({together}) with Python "
            f"{found.python}; knows {checkpoint.architecture}",
        )
        return
    what, _, mend = why.rpartition("; ")
    if not what:
        what, _, mend = why.rpartition(": ")
    yield missing("serving engine", what, mend)


def fits(
    checkpoints: Sequence[Checkpoint], places: Sequence[ServingPlace], settings: Settings
) -> Iterator[DoctorCheck]:
    """Yield for each place whether the models fit there together: the layouts, or what lacks."""
    names = names_of([Path(checkpoint.folder) for checkpoint in checkpoints])
    demands = {names[Path(one.folder)]: Demand(checkpoint=one) for one in checkpoints}
    for place in places:
        name = f"{', '.join(demands)} on {place.name}"
        if place.machine.gpus and not place.machine.gpu_memory_mb:
            yield warning(
                name,
                f"{place.machine.gpus} GPUs per node whose memory is not known{place.note}",
                "give --partition and --gpus 1: the doctor's job then asks the GPU driver there",
            )
            continue
        try:
            nodes, layouts = _fewest_nodes(demands, place, settings)
        except ServingError as error:
            what, _, mend = str(error).rpartition("; ")
            bad = CheckState.MISSING if place.is_chosen else CheckState.WARNING
            yield graded(bad, name, (what or str(error)) + place.note, mend or _OTHER)
            continue
        line = _described(name, nodes, layouts, place)
        why = doubt(demands, _machine(place, nodes), settings.serving)
        if why and line.state is CheckState.OK:
            what, _, mend = why.rpartition("; ")
            line = warning(name, f"{line.found}; {what}", mend)
        yield line


def _fewest_nodes(
    demands: Mapping[str, Demand], place: ServingPlace, settings: Settings
) -> tuple[int, dict[str, Layout]]:
    """Return the layouts on the requested nodes, or on the fewest nodes that hold the models.

    Raises ServingError, for the largest number of nodes, if the models do not fit.
    """
    serving: ServingSettings = settings.serving
    most = settings.nodes or min(place.nodes, _MOST_NODES)
    for nodes in range(settings.nodes or 1, most):
        try:
            return nodes, _on(demands, place, nodes, serving)
        except ServingError:
            continue
    return most, _on(demands, place, most, serving)


def _on(
    demands: Mapping[str, Demand], place: ServingPlace, nodes: int, serving: ServingSettings
) -> dict[str, Layout]:
    return lay_out_all(demands, _machine(place, nodes), serving)


def _machine(place: ServingPlace, nodes: int) -> Machine:
    return place.machine.model_copy(update={"nodes": nodes})


def _described(
    name: str, nodes: int, layouts: Mapping[str, Layout], place: ServingPlace
) -> DoctorCheck:
    several = len(layouts) > 1
    sizes = "; ".join(
        (f"{model}: " if several else "") + _sizes(layout, nodes, place)
        for model, layout in layouts.items()
    )
    where = "" if place.name == HERE else f" with --nodes {nodes}"
    found = f"fits{where}: {sizes}{place.note}"
    if nodes > place.nodes:
        return warning(name, f"{found}; only {place.nodes} nodes are usable", "give fewer --nodes")
    return ok(name, found)


def _sizes(layout: Layout, nodes: int, place: ServingPlace) -> str:
    sizes = f"{layout.replicas} replicas"
    if place.machine.gpus:
        sizes += (
            f" of tensor parallel {layout.tensor_parallel} and pipeline parallel "
            f"{layout.pipeline_parallel}, of {nodes * place.machine.gpus} GPUs"
        )
    return f"{sizes}, context {layout.context}; {'; '.join(layout.why)}"


# The check of the embedder: ideas are compared by an embedding model, or by keyword vectors.

_NAME = "likeness"


def check(settings: Settings) -> DoctorCheck:
    """Return the check of the embedder; a configured model is opened and tried here."""
    release = installed()
    library = f"sentence-transformers {release}" if release else "sentence-transformers"
    settled = embedder_choice.settle(settings, Path.cwd())
    if settled.embedding.model in ("", KEYWORDS):
        stands = "is installed but unused" if release else f"is not installed ({INSTALL})"
        return ok(_NAME, f"keyword vectors: embedding.model names no folder; {library} {stands}")
    try:
        embedder = open_embedder(settled.embedding)
    except ModelError as error:
        return missing(
            _NAME, str(error), f'fix that, or set embedding.model to "keywords"; {INSTALL}'
        )
    return ok(_NAME, f"{embedder_choice.statement(embedder, elsewhere=False)}; {library}")
