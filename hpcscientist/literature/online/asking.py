"""Asking one service politely: from the cache, in turn, again after a pause, or not at all.

A service that is overloaded or broken is tried a few times within `PATIENCE_S`, and then set
aside for a while in which nobody asks it. So what a campaign can lose to it is bounded, and what
is missing is simply not found.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime

from hpcscientist.errors import OutOfReach
from hpcscientist.files.text import one_line, printable
from hpcscientist.literature.online import cache as caching
from hpcscientist.literature.online.cache import Answered, Cache
from hpcscientist.literature.online.exchange import Answer, Exchange, NoNetwork
from hpcscientist.literature.online.services.base import (
    Page,
    QueryRefused,
    Service,
    Unreadable,
    words_of,
)
from hpcscientist.literature.online.turns import NoTurn, Turn, Turns
from hpcscientist.models.endpoint.retry import Transient, is_transient, retry_after_s
from hpcscientist.ports.telling import Tell

PATIENCE_S = 45.0  # for one page, all tries together
TRY_S = 20.0
_TRIES = 4
_TRIES_WITHOUT_NETWORK = 2
_PAUSE_S = 2.0  # before the second try, doubled before each further one
_REFUSED_S = 900.0
_NO = frozenset({401, 403})


class Asker:
    """Asks one service. Any thread may."""

    def __init__(
        self,
        service: Service,
        cache: Cache,
        turns: Turns,
        *,
        jitter: Callable[[], float] = random.random,
        note: Tell = lambda _: None,
    ) -> None:
        """`jitter` returns numbers in [0, 1); `note` is told what does no harm, once."""
        self.service = service
        self._exchange = Exchange(service.base.rstrip("/"), service.headers, service.secrets)
        self._cache, self._turns, self._jitter, self._note = cache, turns, jitter, note
        self._told = False
        self._barred_until = float("-inf")  # not shared: another process may have a better key

    def ask(self, words: str, page: int = 0) -> Answered:
        """Return one page of what the service answers to a query, asked once ever.

        Raises OutOfReach, and QueryRefused where it can do nothing with these words.
        """
        query = caching.normalised(words)
        found = self._cache.get(self.service.name, query, page)
        if found is None and not words_of(query):
            found = self._answered(query, page, Page((), more=False))
        if found is not None:
            return found
        try:
            with self._turns.take() as turn:
                # Somebody else may have asked it meanwhile.
                return self._cache.get(self.service.name, query, page) or self._fetch(
                    turn, query, page
                )
        except NoTurn:
            raise OutOfReach("others ask it all the time") from None

    def _fetch(self, turn: Turn, query: str, page: int) -> Answered:
        alone = max(turn.left_alone_s, self._barred_until - self._turns.clock())
        if alone > 0:
            raise OutOfReach(f"it failed a while ago and is left alone for another {alone:.0f} s")
        answered = self._answered(query, page, self._persist(turn, query, page))
        try:
            self._cache.put(answered)
        except OSError as error:
            if not self._told:  # by whoever has the turn
                self._note(f"answers are not kept: {error.filename}: {error.strerror}")
            self._told = True
        return answered

    def _persist(self, turn: Turn, query: str, page: int) -> Page:
        until = self._turns.clock() + PATIENCE_S
        tries = 0
        while True:
            turn.begin()
            left = until - self._turns.clock()
            try:
                found = self._try(turn, query, page, min(TRY_S, max(1.0, left)))
                turn.succeed()
                return found
            except Transient as error:
                tries += 1
                lost = isinstance(error, NoNetwork)
                pause = error.retry_after or self._pause(tries)
                patient = self._turns.clock() + pause < until
                if not patient or tries >= (_TRIES_WITHOUT_NETWORK if lost else _TRIES):
                    turn.set_aside(error.retry_after)
                    raise OutOfReach(str(error), lost) from None
                self._turns.sleep(pause)

    def _try(self, turn: Turn, query: str, page: int, seconds: float) -> Page:
        path, parameters = self.service.request(query, page)
        answer = self._exchange.get(path, parameters, seconds)
        status = answer.status
        if status in _NO:
            self._barred_until = self._turns.clock() + _REFUSED_S
            variable = self.service.key_variable
            mend = f"; see that {variable} holds a valid key" if variable else ""
            raise OutOfReach(f"HTTP {status}{mend}")
        if 400 <= status < 500 and not is_transient(status):
            turn.succeed()
            raise QueryRefused(f"HTTP {status}{_said(answer)}")
        if status != 200:
            asked = retry_after_s(answer.retry_after, datetime.now(UTC))
            raise Transient(f"HTTP {status}", asked)
        try:
            return self.service.read(answer.body, page)
        except Unreadable as error:
            raise Transient(str(error)) from None

    def _pause(self, tries: int) -> float:
        """Return the pause after so many tries: doubled each time, half of it random."""
        return _PAUSE_S * 2.0 ** (tries - 1) * (0.5 + self._jitter() / 2)

    def _answered(self, query: str, page: int, found: Page) -> Answered:
        return Answered(
            service=self.service.name,
            query=query,
            page=page,
            papers=found.papers,
            more=found.more,
        )


def _said(answer: Answer) -> str:
    words = one_line(printable(answer.body[:500].decode("utf-8", "replace")), 150)
    return f": {words}" if words else ""
