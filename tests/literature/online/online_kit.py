"""What tests of online literature share: a clock that is only moved by sleeping, and askers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from hpcscientist.literature.online.asking import Asker
from hpcscientist.literature.online.cache import Cache
from hpcscientist.literature.online.services import ServiceName, service_named
from hpcscientist.literature.online.turns import Turns

VARIABLES: Mapping[ServiceName, str] = {
    "semantic_scholar": "HPCSCI_S2_URL",
    "arxiv": "HPCSCI_ARXIV_URL",
    "openalex": "HPCSCI_OPENALEX_URL",
}


class Clock:
    """Time that passes by sleeping alone. `slept` are the pauses asked for."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.slept: list[float] = []
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        with self._lock:
            self.slept.append(seconds)
            self.now += seconds


class Bench:
    """Askers of services that a server imitates, with everything they keep in one folder."""

    def __init__(self, folder: Path, url: str, **variables: str) -> None:
        self.folder, self.clock, self.notes = folder, Clock(), list[str]()
        self.environment = dict.fromkeys(VARIABLES.values(), url) | variables
        self.cache = Cache(folder / "cache")

    def turns(self, name: ServiceName, shared: bool = True) -> Turns:
        service = service_named(name, self.environment)
        place = self.folder / "turns"
        place.mkdir(exist_ok=True)
        return Turns(
            f"{name} {service.base}",
            service.interval_s,
            place if shared else None,
            clock=self.clock,
            sleep=self.clock.sleep,
        )

    def asker(self, name: ServiceName, shared: bool = True, jitter: float = 1.0) -> Asker:
        return Asker(
            service_named(name, self.environment),
            self.cache,
            self.turns(name, shared),
            jitter=lambda: jitter,
            note=self.notes.append,
        )
