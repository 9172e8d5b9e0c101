"""Messages and letters in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter

from headway.codec import replace
from headway.store.port import LetterPlace, LetterQuery, MessagePage, MessageQuery, Settlement
from headway.store.rows import Cursor, LetterRow
from headway.testing.memory.tables import Tables

POSITION = attrgetter("position")


def read_messages(tables: Tables, query: MessageQuery) -> MessagePage:
    """A page of messages; the cursor leads beyond what did not fit."""
    start = bisect_right(tables.messages, query.after.position, key=POSITION)
    rows = tables.messages[start : start + query.limit]
    if not rows:
        return MessagePage([], query.after)
    found = [
        row
        for row in rows
        if (not query.kinds or row.kind in query.kinds) and query.tenant in {None, row.tenant}
    ]
    return MessagePage(found, rows[-1].cursor, len(rows) < query.limit)


def settle(tables: Tables, settlement: Settlement, now: datetime) -> bool:
    """Write what a consumer has done, if it has its lease."""
    if not tables.holds(("", settlement.consumer), settlement.holder, now):
        return False
    tables.consumers[settlement.consumer] = settlement.cursor
    for letter in settlement.letters:
        tables.letters[letter.destination, letter.position] = letter
    for position in settlement.delivered:
        tables.letters.pop((settlement.consumer, position), None)
    return True


def retire(tables: Tables, consumer: str, now: datetime) -> bool:
    """Forget a consumer and its letters, unless it is at work."""
    lease = tables.leases.get(("", consumer))
    if lease is not None and lease.until > now:
        return False
    tables.leases.pop(("", consumer), None)
    tables.consumers.pop(consumer, None)
    for key in [key for key in tables.letters if key[0] == consumer]:
        del tables.letters[key]
    return True


def list_letters(tables: Tables, query: LetterQuery, now: datetime) -> list[LetterRow]:
    """A page of letters, in the order of their messages; one message's are never torn apart."""
    if query.due:
        return [] if query.dead else _due(tables, query, now)
    found = sorted(_matching(tables, query), key=_order)
    page = found[: query.limit]
    if query.destination is None and len(page) == query.limit and page:
        return [letter for letter in found if letter.position <= page[-1].position]
    return page


def waiting(tables: Tables, destination: str, after: LetterPlace, limit: int) -> list[LetterPlace]:
    """The places of letters that wait for a destination."""
    found = _matching(tables, LetterQuery(destination, dead=False))
    places = sorted(LetterPlace(each.tenant, each.instance, each.position, each.attempts) for each in found)
    return [place for place in places if place[:3] > after[:3]][:limit]


def behind(tables: Tables, heads: Sequence[LetterRow], each: int) -> list[LetterRow]:
    """Letters that wait behind others of their line: so many of each."""
    found: list[LetterRow] = []
    for head in heads:
        query = LetterQuery(head.destination, head.tenant, head.instance, dead=False, after=head.position)
        found += sorted(_matching(tables, query), key=_order)[:each]
    return found


def redrive(tables: Tables, query: LetterQuery, now: datetime) -> int:
    """Let dead letters be tried again at once, with all their attempts."""
    letters = _chosen(tables, replace(query, dead=True))
    for letter in letters:
        again = replace(letter, dead=False, attempts=0, due=now)
        tables.letters[letter.destination, letter.position] = again
    return len(letters)


def discard(tables: Tables, query: LetterQuery) -> int:
    """Delete letters that are dead, or those that wait."""
    letters = _chosen(tables, replace(query, dead=query.dead is not False))
    for letter in letters:
        del tables.letters[letter.destination, letter.position]
    return len(letters)


def prune(tables: Tables, before: datetime, limit: int) -> int:
    """Delete messages from before a time that all consumers are past."""
    past = min((cursor.position for cursor in tables.consumers.values()), default=None)
    first = [row for row in tables.messages if past is None or row.position <= past][:limit]
    gone = {row.position for row in first if row.at < before}
    live = [row.cursor for row in first if row.position in gone and row.kind == "live"]
    tables.forgotten = max([tables.forgotten, *live])
    tables.messages = [row for row in tables.messages if row.position not in gone]
    return len(gone)


def last_message(tables: Tables) -> Cursor:
    """From where to read what comes from now on."""
    return Cursor(0, tables.messages[-1].position if tables.messages else 0)


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
