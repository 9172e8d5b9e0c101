"""How workers claim work on SQLite: by priority, the tenants in turn, within the limits of each item."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

from headway.codec import decode, encode
from headway.store.queries import Claim
from headway.store.rows import Version, WorkRow
from headway.store.sqlite.connection import Connection
from headway.store.sqlite.tables import WORK, from_time

RUNNING = """
SELECT count(*) FROM work INDEXED BY work_at_once WHERE tenant = ? AND concurrency = ? AND worker IS NOT NULL
"""
PACE = "SELECT free_at FROM pace WHERE tenant = ? AND rate = ?"
KEEP_PACE = (
    "INSERT INTO pace (tenant, rate, free_at) VALUES (?, ?, ?)"
    " ON CONFLICT (tenant, rate) DO UPDATE SET free_at = excluded.free_at"
)
# Each claim that adds rows deletes twice as many that have expired, so that the table does not grow.
FORGET_PACE = """
DELETE FROM pace WHERE (tenant, rate) IN (SELECT tenant, rate FROM pace WHERE free_at <= ? LIMIT ?)
"""
HELD_BY_ANOTHER = "SELECT 1 FROM lease WHERE tenant = ? AND name = ? AND holder <> ? AND until > ?"
MOST = 2**62


class ClaimLimits(NamedTuple):
    """The limits of a work item."""

    tenant: str = ""
    concurrency: str | None = None
    at_once: int = 1
    rate: str | None = None
    rate_most: int = 1
    rate_per: int = 1_000
    affinity: str | None = None


_limits = attrgetter(*ClaimLimits._fields[1:])


def place_of(work: WorkRow) -> str:
    """What work items must have in common to be claimed in one go, as JSON; the tenant comes first."""
    place = (work.tenant, work.handler, work.chart, work.version)
    if work.concurrency is None and work.rate is None and work.affinity is None:
        return encode(place).decode()
    return encode((*place, *_limits(work))).decode()


class LimitRoom:
    """How much of limited work a worker may have now; belongs in a transaction.

    A rate lets `rate_most` items go at once after a rest, and then one each `rate_per / rate_most`: in any
    time t at most `rate_most + t * rate_most / rate_per`.
    """

    def __init__(self, connection: Connection, worker: str, now: int) -> None:
        self._connection, self._worker, self.now = connection, worker, now
        self._running: dict[tuple[str, str], int] = {}
        self._free_at: dict[tuple[str, str], int] = {}
        self._paced: set[tuple[str, str]] = set()
        self._elsewhere: dict[tuple[str, str], bool] = {}

    def free(self, limits: ClaimLimits) -> int:
        """How many items with these limits there is room for."""
        room = MOST
        if limits.affinity is not None and self._is_elsewhere(limits.tenant, limits.affinity):
            return 0
        if limits.concurrency is not None:
            room = limits.at_once - self._running_with(limits, limits.concurrency)
        if limits.rate is not None:
            room = min(room, self._free_of(limits, limits.rate))
        return room

    def take(self, limits: ClaimLimits) -> bool:
        """Use the room for one item; False when there is none."""
        if self.free(limits) < 1:
            return False
        if limits.concurrency is not None:
            self._running[limits.tenant, limits.concurrency] += 1
        if limits.rate is not None:
            key = (limits.tenant, limits.rate)
            self._free_at[key] = max(self.now, self._free_at[key]) + _interval(limits)
            self._paced.add(key)
        return True

    def write(self) -> None:
        """Keep what was taken of rates."""
        if self._paced:
            self._connection.write(FORGET_PACE, [(self.now, 2 * len(self._paced))])
            self._connection.write(KEEP_PACE, [(*key, self._free_at[key]) for key in self._paced])

    def _is_elsewhere(self, tenant: str, name: str) -> bool:
        """Whether another worker holds what the work needs."""
        key = (tenant, name)
        if key not in self._elsewhere:
            self._elsewhere[key] = bool(
                self._connection.fetch(HELD_BY_ANOTHER, (*key, self._worker, self.now))
            )
        return self._elsewhere[key]

    def _running_with(self, limits: ClaimLimits, concurrency: str) -> int:
        key = (limits.tenant, concurrency)
        if key not in self._running:
            [(self._running[key],)] = self._connection.fetch(RUNNING, key)
        return self._running[key]

    def _free_of(self, limits: ClaimLimits, rate: str) -> int:
        """What a rate has left, by the generic cell rate algorithm."""
        key = (limits.tenant, rate)
        if key not in self._free_at:
            found = self._connection.fetch(PACE, key)
            self._free_at[key] = found[0][0] if found else self.now
        if limits.rate_most < 1:
            return 0
        interval = _interval(limits)
        used = max(0, self._free_at[key] - self.now)
        return max(0, limits.rate_most - -(-used // interval))


def _interval(limits: ClaimLimits) -> int:
    """Microseconds from one item to the next, rounded up so that there are never too many."""
    return max(1, -(-limits.rate_per * 1_000 // limits.rate_most))


WINDOW = 1_000
"""How many places are read before work is taken from them."""
WINDOWS = 4
"""How many windows a claim reads: with thousands of keys at their limit, the next claim continues there."""
MOST_TURNS = 10_000
MOST_DUE = 10_000
"""How much work may become due in one claim; the rest does in the next."""

DUE, ID, LEASE, WORKER = map(WORK.columns.index, ("due", "id", "lease", "worker"))
UNLIMITED = ClaimLimits()
EVERYWHERE = ("", "\\")
"""Before and after all places, which begin with a bracket."""

WAITING = "FROM work WHERE worker IS NULL AND place IS NOT NULL AND queue = :queue"
PRIORITIES = f"""
WITH RECURSIVE step (priority) AS (
    SELECT max(priority) {WAITING}
    UNION ALL
    SELECT (SELECT max(priority) {WAITING} AND priority < step.priority) FROM step WHERE priority IS NOT NULL
)
SELECT priority FROM step WHERE priority IS NOT NULL
"""
AT_PRIORITY = f"{WAITING} AND priority = :priority"
PLACES = f"""
WITH RECURSIVE step (place) AS (
    SELECT min(place) {AT_PRIORITY} AND place > :after AND place <= :until
    UNION ALL
    SELECT (SELECT min(place) {AT_PRIORITY} AND place > step.place AND place <= :until)
    FROM step WHERE place IS NOT NULL
)
SELECT place, (SELECT min(due) {AT_PRIORITY} AND place = step.place)
FROM step WHERE place IS NOT NULL LIMIT :limit
"""
ITEMS = f"""
{WORK.select}
WHERE worker IS NULL AND queue = ? AND priority = ? AND place = ? AND due <= ? AND (due, id) > (?, ?)
ORDER BY due, id LIMIT ?
"""
BEFORE_ALL = (-(2**63), "")
COMES_DUE = f"""
{WORK.select} INDEXED BY work_for_later
WHERE worker IS NULL AND place IS NULL AND due <= ? ORDER BY due LIMIT ?
"""
PLACE = "UPDATE work SET place = ? WHERE tenant = ? AND id = ?"
TAKE = "UPDATE work SET worker = ?, leased_until = ?, started_at = ? WHERE tenant = ? AND id = ?"

Item = tuple[int, str, tuple[Any, ...], ClaimLimits]
"""Work as it is stored, with what it is sorted by and what limits it."""


class Span(NamedTuple):
    """Places of a queue and priority: all, or those of a tenant."""

    queue: str
    priority: int
    after: str
    until: str


class Place(NamedTuple):
    """Work items with the same queue, priority, handler and limits, which can be claimed in one go."""

    queue: str
    priority: int
    name: str
    tenant: str
    handler: str
    limits: ClaimLimits


class WorkClaims:
    """Leases work, and remembers which tenant was served last, so that all are served in turn."""

    def __init__(self) -> None:
        self._served = ""
        self._turns: dict[Span, str] = {}

    def claim(self, connection: Connection, claim: Claim, now: int) -> list[WorkRow]:
        """Lease what is due; belongs in a transaction."""
        _put_in_place(connection, now)
        room = LimitRoom(connection, claim.worker, now)
        chosen: list[Item] = []
        for priority in _priorities(connection, claim.queues):
            if len(chosen) < claim.limit:
                walks = [self._walk(connection, span) for span in _spans(claim, priority)]
                chosen += self._serve(walks, Candidates(connection, claim, room), claim.limit - len(chosen))
        room.write()
        if len(self._turns) > MOST_TURNS:
            self._turns.clear()
        return _lease(connection, claim.worker, chosen, now)

    def _walk(self, connection: Connection, span: Span) -> PlaceWalk:
        return PlaceWalk(connection, span, self._turns.get(span, span.after))

    def _serve(self, walks: list[PlaceWalk], candidates: Candidates, room: int) -> list[Item]:
        """Take work from window after window, until there is no room or nothing left to look at."""
        chosen: list[Item] = []
        for _ in range(WINDOWS):
            windows = [(walk, window) for walk in walks if (window := walk.window())]
            places = [place for walk, window in windows for place in candidates.places(walk.span, window)]
            taken = self._share_out(places, candidates, room - len(chosen))
            chosen += taken
            for walk, window in windows:
                self._turns[walk.span] = self._next_start(walk, window[-1][0], served=bool(taken))
            if len(chosen) >= room or all(walk.ended for walk in walks):
                break
        return chosen

    def _share_out(self, places: list[Place], candidates: Candidates, room: int) -> list[Item]:
        """Serve the tenants in turn: nobody gets a second item while another waits for a first."""
        by_tenant: dict[str, list[Place]] = {}
        for place in places:
            by_tenant.setdefault(place.tenant, []).append(place)
        in_turn = sorted(by_tenant, key=lambda tenant: (tenant <= self._served, tenant))
        share = -(-room // max(1, len(in_turn)))
        lines = deque((tenant, candidates.line(by_tenant[tenant], share)) for tenant in in_turn)
        if len(lines) == 1:
            [(self._served, line)] = lines
            return [*islice(line, room)]
        chosen: list[Item] = []
        while lines and len(chosen) < room:
            tenant, line = lines.popleft()
            for item in islice(line, 1):
                chosen.append(item)
                lines.append((tenant, line))
                self._served = tenant
        return chosen

    def _next_start(self, walk: PlaceWalk, last: str, *, served: bool) -> str:
        """Behind the tenant that was served last, or behind the last place if nobody was served before it."""
        after, until = _bounds(self._served)
        jumps = served and not last.startswith(after) and walk.span.after <= until <= walk.span.until
        return until if jumps else last


class PlaceWalk:
    """Goes from place to place, from where it left off and round, a window at a time."""

    def __init__(self, connection: Connection, span: Span, start: str) -> None:
        self.span = span
        self._connection = connection
        self._legs = [(start, span.until), (span.after, start)]

    @property
    def ended(self) -> bool:
        """Whether it has seen every place."""
        return not self._legs

    def window(self) -> list[tuple[str, int]]:
        """The next places, and when the first work of each is due."""
        found: list[tuple[Any, ...]] = []
        while self._legs and (limit := WINDOW - len(found)):
            (after, until), *later = self._legs
            if after < until:
                found += (rows := self._places(after, until, limit))
                after = rows[-1][0] if len(rows) == limit else until
            self._legs = [(after, until), *later] if after < until else later
        return found

    def all(self) -> Iterator[tuple[str, int]]:
        """All places, window after window."""
        while not self.ended:
            yield from self.window()

    def _places(self, after: str, until: str, limit: int) -> list[tuple[Any, ...]]:
        place = {"queue": self.span.queue, "priority": self.span.priority}
        return self._connection.fetch(PLACES, {**place, "after": after, "until": until, "limit": limit})


class Candidates:
    """The items that a worker may claim at a place."""

    def __init__(self, connection: Connection, claim: Claim, room: LimitRoom) -> None:
        self._connection, self._room = connection, room
        self._handlers = {*claim.handlers}
        self._versions = {*claim.versions}

    def places(self, span: Span, window: list[tuple[str, int]]) -> Iterator[Place]:
        """Those of a window whose work is due and fits."""
        for name, due in window:
            if due <= self._room.now:
                tenant, handler, chart, version, *limits = decode(list[Any], name)
                if self._takes(handler, (chart, version)):
                    limited = ClaimLimits(tenant, *limits) if limits else UNLIMITED
                    yield Place(span.queue, span.priority, name, tenant, handler, limited)

    def _takes(self, handler: str, version: Version) -> bool:
        return version in self._versions and (not self._handlers or handler in self._handlers)

    def line(self, places: list[Place], share: int) -> Iterator[Item]:
        """The work of some places, the longest due first, as far as there is room for it."""
        if len(places) == 1:
            items = self._items(places[0], share)
        else:
            items = merge(*(self._items(place, -(-share // len(places))) for place in places))
        return (item for item in items if item[3] is UNLIMITED or self._room.take(item[3]))

    def _items(self, place: Place, share: int) -> Iterator[Item]:
        last: tuple[Any, ...] = BEFORE_ALL
        limits = place.limits
        while (limit := min(share, self._room.free(limits))) > 0:
            bound = (*place[:3], self._room.now, *last, limit)
            rows = self._connection.fetch(ITEMS, bound)
            for row in rows:
                last = (row[DUE], row[ID])
                yield row[DUE], row[ID], row, limits
                if limits is not UNLIMITED and not self._room.free(limits):
                    return
            if len(rows) < limit:
                return


def _put_in_place(connection: Connection, now: int) -> None:
    """Give items that have become due their places, where claims find them."""
    rows = WORK.rows(connection.fetch(COMES_DUE, (now, MOST_DUE)))
    connection.write(PLACE, [(place_of(row), row.tenant, row.id) for row in rows])


def _priorities(connection: Connection, queues: Iterable[str]) -> list[int]:
    """The priorities there are, the highest first."""
    found = (connection.fetch(PRIORITIES, {"queue": queue}) for queue in queues)
    return sorted({priority for rows in found for (priority,) in rows}, reverse=True)


def _spans(claim: Claim, priority: int) -> list[Span]:
    bounds = [*map(_bounds, claim.tenants)] or [EVERYWHERE]
    return [Span(queue, priority, *each) for queue in dict.fromkeys(claim.queues) for each in bounds]


def _bounds(tenant: str) -> tuple[str, str]:
    """The bounds of all places of a tenant: after the tenant they have a comma."""
    start = encode((tenant,)).decode().removesuffix("]")
    return start + ",", start + "-"


def _lease(connection: Connection, worker: str, chosen: list[Item], now: int) -> list[WorkRow]:
    connection.write(
        TAKE, [(worker, now + row[LEASE] * 1_000, now, row[0], row[1]) for _, _, row, _ in chosen]
    )
    until = {lease: from_time(now + lease * 1_000) for lease in {row[LEASE] for _, _, row, _ in chosen}}
    started = from_time(now)
    rows: list[WorkRow] = []
    for due, _, row, _ in chosen:
        values = [*row]
        values[DUE] = from_time(due)
        values[WORKER : WORKER + 3] = worker, until[row[LEASE]], started
        rows.append(WorkRow(*values))
    return rows
