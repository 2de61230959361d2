"""What asks the models of a plane in these tests, on one of its nodes and as its user.

    python served_asking.py bounds PLANE
    python served_asking.py many PLANE RUN

`bounds` prints what became of requests that go wrong, each in its own way; `many` asks as a
campaign does, records replies in RUN, and prints what was told of them.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hpcscientist.config.settings import ClientSettings
from hpcscientist.errors import ContextOverflow, HpcsciError
from hpcscientist.files.rundir import RunPaths
from hpcscientist.models.endpoint.client import OpenAIModel
from hpcscientist.models.recorded import RecordedModel
from hpcscientist.models.serving import secrets
from hpcscientist.models.serving.order import Endpoint, ServingPaths
from hpcscientist.models.serving.plane import read_endpoint
from hpcscientist.models.serving.replicas import open_served
from hpcscientist.records.model_calls import Message, ModelReply, ModelRequest

MANY = 24
TOKENS = 400
ENDLESS = 30_000  # tokens; minutes
SLOTS = 8  # of two engines
SCHEMA = {
    "type": "object",
    "properties": {
        "odd": {"type": "boolean"},
        "kind": {"enum": ["prime", "square"]},
        "digits": {"type": "array", "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2},
    },
    "required": ["odd", "kind", "digits"],
    "additionalProperties": False,
}


def request(number: int = 1, text: str = "a", **more: Any) -> ModelRequest:
    message = Message(role="user", content=text)
    given = {"subject": f"idea-{number:04}", "stage": "propose", "seed": number, **more}
    return ModelRequest(messages=(message,), **given)


async def bounds(paths: ServingPaths, endpoint: Endpoint) -> dict[str, Any]:
    """Ask what is refused, bounded, cut off or constrained."""
    key = secrets.read(paths.key)
    fails = ClientSettings(retries=0, timeout_s=15.0)
    patient = ClientSettings(retries=0, timeout_s=240.0)

    def model(settings: ClientSettings, shown: str | None = key) -> OpenAIModel:
        return OpenAIModel(endpoint.url, endpoint.models[0], settings, shown)

    good, hasty = model(patient), model(fails)
    said: dict[str, Any] = {
        name: await one(model(patient, shown), request(max_tokens=1))
        for name, shown in (("wrong key", "wrong"), ("no key", None))
    }
    said["too long"] = await one(good, request(text="a" * 40_000, max_tokens=10))
    said["schema"] = await one(
        good, request(schema_name="Number", reply_schema=SCHEMA, max_tokens=200)
    )
    said["bounded"] = await one(good, request(max_tokens=100, ignore_eos=True))
    endless = [request(n, max_tokens=ENDLESS, ignore_eos=True) for n in range(2 * SLOTS)]
    said["endless"] = await all_of(hasty, endless)
    said["after"] = await all_of(good, [request(n, max_tokens=5) for n in range(2 * SLOTS)])
    return said


async def many(paths: ServingPaths, endpoint: Endpoint, run: Path) -> dict[str, Any]:
    """Ask through all that a campaign's requests go through."""
    told: list[str] = []

    def tell(asked: ModelRequest, reply: ModelReply, time: int) -> None:
        told.append(asked.subject)

    own = open_served(paths, endpoint, endpoint.models[0], ClientSettings())
    model = RecordedModel(own, RunPaths(run), tell)
    try:
        asked = [request(n, max_tokens=TOKENS, ignore_eos=True) for n in range(MANY)]
        return {"replies": await all_of(model, asked), "told": told}
    finally:
        await model.close()


async def all_of(model: Any, requests: Iterable[ModelRequest]) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(one(model, asked) for asked in requests)))


async def one(model: Any, asked: ModelRequest) -> dict[str, Any]:
    """Return a reply's text and end, or the error's kind and words."""
    try:
        reply = await model.complete(asked)
    except HpcsciError as error:
        found = {"error": type(error).__name__, "said": str(error)}
        if isinstance(error, ContextOverflow):
            found |= {"context": error.context, "prompt_tokens": error.prompt_tokens}
        return found
    return {"text": reply.text, "finish": reply.finish, "tokens": reply.completion_tokens}


def main() -> None:
    """Do what the command line says, and print what came of it."""
    what, plane, *more = sys.argv[1:]
    paths = ServingPaths(Path(plane))
    endpoint = read_endpoint(paths)
    assert endpoint is not None
    if what == "bounds":
        found = asyncio.run(bounds(paths, endpoint))
    else:
        found = asyncio.run(many(paths, endpoint, Path(more[0])))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
