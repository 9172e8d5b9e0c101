"""Letters in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headway.codec import replace
from headway.store.queries import LetterPlace, LetterQuery
from headway.store.rows import LetterRow
from headway.store.unit import DiscardLetters, RedriveLetters
from headway.testing.memory.tables import Commands, JobRunner, Tables


class MemoryLetters:
    """The letters of the tables."""

    def __init__(self, call: JobRunner) -> None:
        self._call = call
        self.commands: Commands = {
            RedriveLetters: lambda tables, given, now: _redrive(tables, given.query, now),
            DiscardLetters: lambda tables, given, _: _discard(tables, given.query),
        }

    async def page(self, query: LetterQuery) -> Sequence[LetterRow]:
        """A page of letters; without a destination, all letters of a message are on one page."""
        return await self._call(lambda tables, now: _page(tables, query, now))

    async def waiting(self, destination: str, after: LetterPlace, limit: int) -> Sequence[LetterPlace]:
        """The places of a destination's letters that are not dead, in the order of places."""
        return await self._call(lambda tables, _: _waiting(tables, destination, after, limit))

    async def behind(self, heads: Sequence[LetterRow], each: int) -> Sequence[LetterRow]:
        """The letters behind others of their instance and destination: up to `each` of each, in order."""
        return await self._call(lambda tables, _: _behind(tables, heads, each))

    async def redrive(self, query: LetterQuery) -> int:
        """Make dead letters due now, with all their attempts; returns how many."""
        return await self._call(lambda tables, now: _redrive(tables, query, now), writes=True)

    async def discard(self, query: LetterQuery) -> int:
        """Delete dead letters, or with `dead=False` those that are not dead; returns how many."""
        return await self._call(lambda tables, _: _discard(tables, query), writes=True)


def _page(tables: Tables, query: LetterQuery, now: datetime) -> list[LetterRow]:
    """A page of letters, in the order of their messages; one message's are never torn apart."""
    if query.due:
        return [] if query.dead else _due(tables, query, now)
    found = sorted(_matching(tables, query), key=_order)
    page = found[: query.limit]
    if query.destination is None and len(page) == query.limit and page:
        return [letter for letter in found if letter.position <= page[-1].position]
    return page


def _waiting(tables: Tables, destination: str, after: LetterPlace, limit: int) -> list[LetterPlace]:
    """The places of letters that wait for a destination."""
    found = _matching(tables, LetterQuery(destination, dead=False))
    places = sorted(LetterPlace(each.tenant, each.instance, each.position, each.attempts) for each in found)
    return [place for place in places if place[:3] > after[:3]][:limit]


def _behind(tables: Tables, heads: Sequence[LetterRow], each: int) -> list[LetterRow]:
    """Letters that wait behind the first of their line: at most `each` per line."""
    found: list[LetterRow] = []
    for head in heads:
        query = LetterQuery(head.destination, head.tenant, head.instance, dead=False, after=head.position)
        found += sorted(_matching(tables, query), key=_order)[:each]
    return found


def _redrive(tables: Tables, query: LetterQuery, now: datetime) -> int:
    """Let dead letters be tried again at once, with all their attempts."""
    letters = _chosen(tables, replace(query, dead=True))
    for letter in letters:
        again = replace(letter, dead=False, attempts=0, due=now)
        tables.letters[letter.destination, letter.position] = again
    return len(letters)


def _discard(tables: Tables, query: LetterQuery) -> int:
    """Delete letters that are dead, or those that wait."""
    letters = _chosen(tables, replace(query, dead=query.dead is not False))
    for letter in letters:
        del tables.letters[letter.destination, letter.position]
    return len(letters)


def _chosen(tables: Tables, query: LetterQuery) -> Sequence[LetterRow]:
    return sorted(_matching(tables, query), key=_order)[: query.limit]


def _matching(tables: Tables, query: LetterQuery) -> list[LetterRow]:
    return [
        letter
        for letter in tables.letters.values()
        if letter.position > query.after
        and query.destination in {None, letter.destination}
        and query.tenant in {None, letter.tenant}
        and query.instance in {None, letter.instance}
        and query.dead in {None, letter.dead}
        and (not query.ids or letter.id in query.ids)
    ]


def _due(tables: Tables, query: LetterQuery, now: datetime) -> list[LetterRow]:
    """The first that waits of each instance, when it is due: the longest due, in the order of messages."""
    heads: dict[tuple[str, str, str], LetterRow] = {}
    for letter in tables.letters.values():
        line = (letter.destination, letter.tenant, letter.instance)
        if not letter.dead and (line not in heads or letter.position < heads[line].position):
            heads[line] = letter
    wanted = _matching(tables, query)
    due = [letter for letter in heads.values() if letter.due <= now and letter in wanted]
    due.sort(key=lambda letter: (letter.due, letter.position))
    return sorted(due[: query.limit], key=_order)


def _order(letter: LetterRow) -> tuple[int, str]:
    return letter.position, letter.destination
