"""One replica of a model: Ray Serve LLM's server, with caches of its own.

Two engines that compile into one folder spoil each other's files, above all on a shared file
system; so each replica has its folder on the node's own disk, gone with the plane.

A replica whose engine has died ends at once. Ray Serve asks for its health every ten seconds and
believes the third bad answer; meanwhile it would fail each request at once, be the least busy for
that, and be given most of them.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from ray.serve.llm.deployment import LLMServer

from hpcscientist.models.serving.nodes import caches

_WATCH_S = 0.25


class Replica(LLMServer):  # type: ignore[misc]
    """See the module."""

    async def __init__(  # type: ignore[misc]  # Ray awaits it
        self, *arguments: Any, **named: Any
    ) -> None:
        caches.use_own()
        await super().__init__(*arguments, **named)
        self._watch = asyncio.create_task(self._end_with_engine())

    async def _end_with_engine(self) -> None:
        from vllm.v1.engine.exceptions import EngineDeadError  # noqa: PLC0415 (heavy)

        while True:
            await asyncio.sleep(_WATCH_S)
            try:
                await self.engine.check_health()
            except EngineDeadError:
                os._exit(1)  # Serve sends its requests elsewhere, and starts another

    async def _start_engine(self) -> None:
        """Start the engine, and nothing else.

        Ray Serve LLM would first have a worker on each node import the engine to fetch weights,
        which lie there already, and then start an actor that gathers usage figures.
        """
        self._llm_config.get_or_create_callback().ctx.run_init_node = False
        await self.engine.start()
