"""A library that also searches online services, if they can be reached."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from hpcscientist.errors import OutOfReach
from hpcscientist.files.handed import expanded
from hpcscientist.literature.library import keys
from hpcscientist.literature.library.sameness import merged
from hpcscientist.literature.material import reciprocal
from hpcscientist.literature.online.asking import Asker
from hpcscientist.literature.online.cache import VERSION, Cache, Misses, key, normalised
from hpcscientist.literature.online.services import QueryRefused, ServiceName, service_named
from hpcscientist.literature.online.turns import Turns, shared_folder
from hpcscientist.literature.sources.ids import normal_title
from hpcscientist.ports import Library, Tell
from hpcscientist.records.literature import FormulaHit, Hit, Paper, SearchBy, SymbolHit, Why

# Merging the results of the offline library and the services into one list without repeats.


@dataclass(frozen=True, slots=True)
class ListedPaper:
    """A paper in the results of one search; `why` if the offline library found it."""

    paper: Paper
    why: Why | None = None


@dataclass(slots=True)
class Joined:
    """A paper with its records from all searches, and its rank in each, from 1."""

    records: list[Paper] = field(default_factory=list)
    ranks: dict[int, int] = field(default_factory=dict)
    why: Why = field(default_factory=Why)

    @property
    def score(self) -> float:
        """The score by reciprocal rank fusion."""
        return reciprocal(self.ranks.values())

    @property
    def paper_id(self) -> str:
        """The paper's id in its first record."""
        return self.records[0].paper_id

    def as_hit(self) -> Hit:
        """Return the paper as a hit, with its records merged."""
        paper = one_of(self.records)
        return Hit(
            paper_id=paper.paper_id,
            title=paper.title,
            abstract=paper.abstract,
            year=paper.year,
            origin=paper.origin,
            score=self.score,
            why=self.why,
        )


def join(searches: Sequence[Sequence[ListedPaper]]) -> list[Joined]:
    """Return the papers of several searches, the best first.

    A paper keeps its id from the first search that found it. On a tie the better best rank wins,
    then the smaller id.
    """
    found = _Papers()
    for number, search in enumerate(searches):
        for rank, listed in enumerate(search, start=1):
            joined = found.of(listed.paper)
            joined.records.append(listed.paper)
            joined.ranks.setdefault(number, rank)
            joined.why = listed.why or joined.why
    return sorted(found.papers, key=lambda j: (-j.score, min(j.ranks.values()), j.paper_id))


def one_of(records: Sequence[Paper]) -> Paper:
    """Return one paper merged from several records, under the id of the first."""
    if len(records) == 1:
        return records[0]
    return merged(records).model_copy(update={"paper_id": records[0].paper_id})


class _Papers:
    """The papers so far, by ids and title, to recognise repeats."""

    def __init__(self) -> None:
        self.papers: list[Joined] = []
        self._by_id: dict[str, Joined] = {}
        self._by_title: dict[str, list[Joined]] = {}

    def of(self, paper: Paper) -> Joined:
        """Return the paper of a record; a new one if it matches none so far."""
        ids, title = keys.ids(paper), normal_title(paper.title)
        joined = next((self._by_id[i] for i in ids if i in self._by_id), None) or next(
            (j for j in self._by_title.get(title, ()) if keys.same_paper(j.records[0], paper)), None
        )
        if joined is None:
            joined = Joined()
            self.papers.append(joined)
            self._by_title.setdefault(title, []).append(joined)
        for name in ids:
            self._by_id.setdefault(name, joined)
        return joined


_LOG = logging.getLogger(__name__)


class OnlineLibrary:
    """The adapter that merges an offline library with the results of services.

    A service that is out of reach contributes nothing, and the library reports that once. Formulas
    and code come only from the offline library.
    """

    def __init__(
        self,
        offline: Library | None,
        askers: Sequence[Asker],
        cache: Cache,
        misses: Misses,
        note: Tell,
    ) -> None:
        self._offline, self._askers, self._cache, self._misses = offline, askers, cache, misses
        self._note = note
        self._told: set[str] = set()
        self._found: dict[str, dict[str, Paper]] = {}  # by id, then by origin
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """A hash of the offline library's content and the names of the services."""
        names = [asker.service.name for asker in self._askers]
        parts = [VERSION, self._offline.fingerprint if self._offline else "", names]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def __len__(self) -> int:
        """Return the number of papers in the offline library; the services' number is unknown."""
        return len(self._offline) if self._offline is not None else 0

    def __bool__(self) -> bool:
        return True

    def search(self, query: str, limit: int = 10, by: SearchBy = "both") -> tuple[Hit, ...]:
        """Return at most `limit` papers, best first, by reciprocal rank fusion of all searches."""
        if limit < 1:
            return ()
        with ThreadPoolExecutor(max_workers=len(self._askers) or 1) as threads:
            online = [threads.submit(self._ask, asker, query, limit) for asker in self._askers]
            searches = [self._own(query, limit, by), *(f.result() for f in online)]
        joined = join(searches)[:limit]
        with self._lock:
            for one in joined:
                known = self._found.setdefault(one.paper_id, {})
                known |= {paper.origin: paper for paper in one.records}
        return tuple(one.as_hit() for one in joined)

    def paper(self, paper_id: str) -> Paper | None:
        """Return a whole paper, from the offline library, earlier searches or stored replies."""
        own = self._offline.paper(paper_id) if self._offline is not None else None
        with self._lock:
            known = dict(self._found.get(paper_id, {}))
        if own is None and not known:
            known = {paper.origin: paper for paper in self._cache.holding(paper_id)}
        others = [known[origin] for origin in sorted(known) if own is None or origin != own.origin]
        records = [own, *others] if own is not None else others
        if not records:
            return None
        return one_of(records).model_copy(update={"paper_id": paper_id})

    def formulas(self, query: str, limit: int = 10) -> tuple[FormulaHit, ...]:
        """Return formulas of the offline library."""
        return self._offline.formulas(query, limit) if self._offline is not None else ()

    def symbols(self, query: str, limit: int = 10) -> tuple[SymbolHit, ...]:
        """Return reference code of the offline library."""
        return self._offline.symbols(query, limit) if self._offline is not None else ()

    def _own(self, query: str, limit: int, by: SearchBy) -> list[ListedPaper]:
        if self._offline is None:
            return []
        hits = self._offline.search(query, limit, by)
        return [ListedPaper(self._whole(hit), hit.why) for hit in hits]

    def _whole(self, hit: Hit) -> Paper:
        """Return the offline paper of a hit, with all ids that help to recognise it."""
        paper = self._offline.paper(hit.paper_id) if self._offline is not None else None
        return paper or Paper(
            paper_id=hit.paper_id,
            title=hit.title,
            abstract=hit.abstract,
            year=hit.year,
            source="online",
            origin=hit.origin,
        )

    def _ask(self, asker: Asker, query: str, limit: int) -> list[ListedPaper]:
        """Return the papers that a service finds; those so far if it does not answer."""
        name = asker.service.name
        wanted = min(limit, asker.service.most)
        papers: list[Paper] = []
        for page in range(-(-wanted // asker.service.page_size)):
            place = key(name, normalised(query), page)
            if place in self._misses:
                break
            try:
                answered = asker.ask(query, page)
            except (OutOfReach, QueryRefused) as error:
                self._missed(name, place, error)
                break
            papers += answered.papers
            if not answered.more:
                break
        return [ListedPaper(paper) for paper in papers[:wanted]]

    def _missed(self, name: str, place: str, error: OutOfReach | QueryRefused) -> None:
        try:
            self._misses.add(place)
        except OSError as problem:
            self._tell("misses", f"{problem.filename}: {problem.strerror}")
        if isinstance(error, QueryRefused):
            self._tell(f"{name} refuses", f"{name} refuses a query ({error}); going on without it")
        elif error.network:
            rest = "with the offline library" if self._offline is not None else "without it"
            self._tell("network", f"the network is out of reach ({error}); going on {rest}")
        else:
            self._tell(name, f"{name} does not answer ({error}); going on without it")

    def _tell(self, what: str, message: str) -> None:
        with self._lock:
            if what in self._told:
                return
            self._told.add(what)
        self._note(message)


def open_online(
    offline: Library | None,
    services: Sequence[ServiceName],
    folder: Path | None,
    *,
    note: Tell = _LOG.warning,
    environment: Mapping[str, str] = os.environ,
) -> OnlineLibrary:
    """Return a library merged with services; no request is sent yet.

    `folder` is the campaign's folder to record unanswered queries in; None records none. `note`
    is called once for each problem that the search continues without. Raises ConfigError.
    """
    cache = Cache(default_cache(environment))
    askers = [asker(name, cache, note, environment) for name in dict.fromkeys(services)]
    misses = Misses(None if folder is None else folder / "out-of-reach.txt")
    return OnlineLibrary(offline, askers, cache, misses, note)


def asker(
    name: ServiceName,
    cache: Cache,
    note: Tell = _LOG.warning,
    environment: Mapping[str, str] = os.environ,
) -> Asker:
    """Return the asker of a service. Raises ConfigError for an invalid address or key."""
    service = service_named(name, environment)
    turns = Turns(f"{name} {service.base}", service.interval_s, shared_folder())
    return Asker(service, cache, turns, note=note)


def default_cache(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder in the user's cache where replies are kept for good."""
    cache = environment.get("XDG_CACHE_HOME") or str(expanded("~/.cache"))
    return Path(cache) / "hpcscientist" / "online"
