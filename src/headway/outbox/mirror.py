"""A mirror of all instances in Redis, for those who look often and need not ask the database."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from headway.clock import milliseconds
from headway.codec import Value, decode, encode, replace
from headway.engine.engine import Engine
from headway.engine.lease import Lease
from headway.engine.redaction import snapshot_of
from headway.engine.service import LOG
from headway.engine.watching import WatchingService
from headway.errors import InputError, StoreError
from headway.outbox.destination import DeliveryError
from headway.outbox.redis import MOST_BYTES, Command, RedisServer
from headway.store.queries import EventPage, EventQuery
from headway.store.rows import Cursor, EventRow, HistoryRow, InstanceRow, Key
from headway.store.unit import Changes

PAGE = 200
SCANNED = 1_000
"""So many keys of Redis are looked at in one go."""
SIZE = re.compile(r"[0-9]{1,9}")
LEASE_SECONDS = 30.0
FIELDS = (
    "chart",
    "version",
    "seq",
    "status",
    "ended",
    "parent",
    "owner",
    "created_at",
    "updated_at",
    "snapshot",
)
# A life is told from an earlier one of the same name by its beginning; within it, the later state has the
# higher seq. What is older than what is there is not written, whoever comes with it and when.
KEEP = """
local there = redis.call('HMGET', KEYS[1], 'life', 'seq')
local life, seq = tonumber(ARGV[1]), tonumber(ARGV[2])
if there[1] and (tonumber(there[1]) > life or (tonumber(there[1]) == life and tonumber(there[2]) >= seq)) then
    return 0
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'life', ARGV[1], unpack(ARGV, 4))
if ARGV[3] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return 1
"""
# Only from where it was: a Redis that was emptied in between, or that another node goes on with, has to be
# looked at anew.
REACH = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
"""
DROP = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
for i = 2, #KEYS do redis.call('DEL', KEYS[i]) end
return 1
"""


class Line(Value):
    """A line of history, and how to know it again."""

    tenant: str
    instance: str
    cursor: Cursor
    hash: str


class Place(Value):
    """How far a mirror has come: the last event, and the last line, by which it knows the log again.

    What was pruned up to `swept` is not in the mirror any more. While all of it is deleted, `clearing` is who
    does so.
    """

    cursor: Cursor = Cursor()
    line: Line | None = None
    swept: Cursor = Cursor()
    clearing: str | None = None

    @property
    def text(self) -> str:
        """As it stands in Redis."""
        return encode(self).decode()

    def after(self, page: EventPage) -> Place:
        """The place at the end of a page.

        It is the last event's own, not the end of the log: a database that is restored on another server may
        count on from below that.
        """
        lines = [event.line for event in page.events if isinstance(event, EventRow)]
        line = _line(lines[-1]) if lines else self.line
        cursor = page.events[-1].cursor if page.events and page.complete else page.cursor
        return replace(self, cursor=cursor, line=line)

    def is_in(self, log: Sequence[HistoryRow], forgotten: Cursor) -> bool:
        """Whether the last line stands in a log where it stood, or was pruned."""
        if self.line is None:
            return True
        there = [row for row in log if row.cursor == self.line.cursor]
        return [*map(_line, there)] == [self.line] or (not there and self.line.cursor <= forgotten)


class Mirrored(Value):
    """An instance as the mirror shows it."""

    tenant: str
    id: str
    chart: str
    version: int
    seq: int
    status: str
    ended: bool
    parent: str | None
    owner: str | None
    created_at: datetime
    updated_at: datetime
    snapshot: str


class Mirror(WatchingService):
    """Follows the log and writes where each instance stands; how far it has come stands in Redis, too.

    So it never holds up a send. While Redis is gone it waits, and then goes on where it was; a Redis that
    has lost its data gets everything anew, and so does one that has followed a log that is no more, because
    the database was put back to an earlier time. What was pruned while nobody looked is taken out. Of many
    nodes one writes; who writes twice changes nothing.
    """

    name = "mirror"
    passing = (StoreError, DeliveryError)

    def __init__(
        self,
        engine: Engine,
        server: str | RedisServer,
        *,
        prefix: str = "headway",
        keep: str | float = "1h",
        page: int = PAGE,
    ) -> None:
        """`keep` is how long an instance that has ended is still shown."""
        super().__init__(engine)
        self._server = RedisServer(server) if isinstance(server, str) else server
        self._prefix, self._page = prefix, page
        self._keep = milliseconds(keep)
        self._lease = Lease(engine.store, f"mirror:{prefix}", engine.node, lasts=LEASE_SECONDS)
        self._place = f"{prefix}:cursor"
        self._held_back = False

    async def stop(self) -> None:
        """Stop, and let another node go on."""
        await super().stop()
        with suppress(StoreError):  # without the database the lease runs out by itself
            await self._lease.let_go()
        await self._server.close()

    async def turn(self) -> bool:
        """Write what is new; True when there is more. Raises DeliveryError without Redis."""
        return await self._lease.held() and await self._go_on()

    async def rest(self) -> float:
        """Not long while another transaction holds lines back."""
        return 0.02 if self._held_back else self.longest_rest

    async def read(self, tenant: str, instance: str) -> Mirrored | None:
        """An instance as the mirror shows it; None when it does not. Raises DeliveryError without Redis."""
        return await _read(self._server, self._prefix, (tenant, instance))

    def key(self, key: Key) -> str:
        """Where an instance stands in Redis."""
        return _place(self._prefix, key)

    async def _go_on(self) -> bool:
        """Read on from where Redis is."""
        place = await self._read_place()
        if place is None:
            await self._begin_anew()
            return True
        last = await self._last_line(place)
        page = await self._store.events.page(EventQuery(after=place.cursor, limit=self._page))
        # Asked after the log was read: who asks before does not hear of what is pruned in between.
        forgotten = await self._store.events.forgotten()
        if not place.is_in(last, forgotten):
            LOG.warning("mirror: the database is not the one it was; Redis gets everything anew")
            await self._begin_anew()
            return True
        self._held_back = page.held_back
        after = place.after(page) if page.events or not page.complete else place
        if after != place:
            keys = {(event.tenant, event.instance) for event in page.events}
            rows = await self._store.instances.look_up(keys)
            await self._write(rows)
            await self._drop(place, keys - {(row.tenant, row.id) for row in rows})
            self.tally["written"] += len(rows)
        # Once, when all that was pruned is behind: who swept at every pruning would not come on.
        is_past = page.complete or forgotten <= after.cursor
        if is_past and max(place.cursor, place.swept) < forgotten:
            await self._sweep(place)
            after = replace(after, swept=forgotten)
        if after != place:
            await self._reach(place, after)
        return not page.complete

    async def _write(self, rows: Sequence[InstanceRow]) -> None:
        for share in _shares(map(self._command, rows)):
            await _answers(self._server, share)

    async def _drop(self, place: Place, keys: Collection[Key]) -> None:
        """Delete instances, if the mirror is where it was."""
        if keys:
            names = [self._place, *map(self.key, keys)]
            await _answers(self._server, [("EVAL", DROP, len(names), *names, place.text)])

    async def _reach(self, before: Place, after: Place) -> None:
        """Only when all that comes before is written: what fails is written again."""
        await _answers(self._server, [("EVAL", REACH, 1, self._place, before.text, after.text)])

    async def _read_place(self) -> Place | None:
        """Where the mirror is; None when nobody knows that."""
        [found] = await _answers(self._server, [("GET", self._place)])
        with suppress(InputError):
            place = None if found is None else decode(Place, found)
            return None if place is None or place.clearing else place
        return None

    async def _last_line(self, place: Place) -> Sequence[HistoryRow]:
        """What stands in the database now where the mirror's last line stood."""
        line = place.line
        if line is None:
            return ()
        return await self._store.history.page((line.tenant, line.instance), line.cursor.position - 1, 1)

    async def _begin_anew(self) -> None:
        """Delete all that the mirror shows, which may never have happened, and begin at the first line."""
        clearing = Place(swept=await self._store.events.forgotten(), clearing=uuid4().hex)
        await _answers(self._server, [("SET", self._place, clearing.text)])
        async for keys in self._shown():
            await self._drop(clearing, keys)
        await self._reach(clearing, replace(clearing, clearing=None))

    async def _sweep(self, place: Place) -> None:
        """Delete what was pruned: there is no line that would tell of it."""
        async for keys in self._shown():
            rows = await self._store.instances.look_up(keys)
            await self._drop(place, keys - {(row.tenant, row.id) for row in rows})
        self.tally["swept"] += 1

    async def _shown(self) -> AsyncIterator[set[Key]]:
        """All instances that the mirror shows, page by page. Raises DeliveryError when another goes on."""
        scan: int = 0
        while True:
            pattern = f"{_literally(self._prefix)}:[0-9]*"
            command: Command = ("SCAN", scan, "MATCH", pattern, "COUNT", SCANNED, "TYPE", "hash")
            [(scan, names)] = await _answers(self._server, [command])
            keys = {key for name in names if (key := _key(self._prefix, name)) is not None}
            if keys:
                yield keys
            if not scan:
                return
            if not await self._lease.held():
                raise DeliveryError("another node goes on with the mirror")

    def _command(self, row: InstanceRow) -> Command:
        life = str(int(row.created_at.timestamp() * 1_000_000))
        expires = str(self._keep) if row.ended else ""
        told = replace(row, snapshot=snapshot_of(row, self._engine.charts))
        fields = [part for name in FIELDS for part in (name, _text(getattr(told, name)))]
        return "EVAL", KEEP, 1, self.key((row.tenant, row.id)), life, row.seq, expires, *fields

    def look(self, changes: Changes) -> None:
        """Wake up for lines of history, and for messages: an instance may move on without a line."""
        if changes.history or changes.messages:
            self.wake()


class RedisMirror:
    """A mirror in Redis: `Node(…, mirror=RedisMirror(url))` keeps it, and any process can read from it."""

    def __init__(
        self, server: str | RedisServer, *, prefix: str = "headway", keep: str | float = "1h"
    ) -> None:
        """`keep` is how long an instance that has ended is still shown. Raises InputError for a bad URL."""
        self._server = RedisServer(server) if isinstance(server, str) else server
        self._prefix, self._keep = prefix, keep

    def on(self, engine: Engine) -> Mirror:
        """The service that keeps it up to date."""
        return Mirror(engine, self._server, prefix=self._prefix, keep=self._keep)

    async def read(self, tenant: str, instance: str) -> Mirrored | None:
        """An instance as the mirror shows it; None when it does not. Raises DeliveryError without Redis."""
        return await _read(self._server, self._prefix, (tenant, instance))

    async def close(self) -> None:
        """Close the connections; who reads again opens new ones."""
        await self._server.close()


def _place(prefix: str, key: Key) -> str:
    """Tenants cannot reach into each other, whatever their names."""
    tenant, instance = key
    return f"{prefix}:{len(tenant)}:{tenant}:{instance}"


def _key(prefix: str, name: bytes) -> Key | None:
    """The instance that stands there; None for what is not of this mirror."""
    size, _, rest = name.decode(errors="replace").removeprefix(f"{prefix}:").partition(":")
    if not SIZE.fullmatch(size) or rest[int(size) : int(size) + 1] != ":":
        return None
    return rest[: int(size)], rest[int(size) + 1 :]


def _line(row: HistoryRow) -> Line:
    return Line(row.tenant, row.instance, row.cursor, row.hash)


def _literally(text: str) -> str:
    """A text as a pattern of Redis that nothing else matches."""
    return re.sub(r"([\\*?\[\]])", r"\\\1", text)


def _shares(commands: Iterable[Command]) -> Iterator[list[Command]]:
    """Commands in their order, as many at a time as Redis gets within its timeout."""
    share: list[Command] = []
    size = 0
    for command in commands:
        weight = sum(len(part) for part in command if isinstance(part, str))
        if share and size + weight > MOST_BYTES:
            yield share
            share, size = [], 0
        share.append(command)
        size += weight
    if share:
        yield share


async def _answers(server: RedisServer, commands: Sequence[Command]) -> list[Any]:
    """The answers to commands. Raises DeliveryError when one of them fails."""
    answers = await server.run(commands)
    for answer in answers:
        if isinstance(answer, Exception):
            raise DeliveryError(f"Redis: {answer}")
    return answers


async def _read(server: RedisServer, prefix: str, key: Key) -> Mirrored | None:
    [answer] = await _answers(server, [("HMGET", _place(prefix, key), *FIELDS)])
    return None if answer[0] is None else _mirrored(key, answer)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, bool):
        return str(int(value))
    return "" if value is None else str(value)


def _mirrored(key: Key, answer: Sequence[bytes]) -> Mirrored:
    found = dict(zip(FIELDS, (part.decode() for part in answer), strict=True))
    return Mirrored(
        tenant=key[0],
        id=key[1],
        chart=found["chart"],
        version=int(found["version"]),
        seq=int(found["seq"]),
        status=found["status"],
        ended=found["ended"] == "1",
        parent=found["parent"] or None,
        owner=found["owner"] or None,
        created_at=datetime.fromisoformat(found["created_at"]),
        updated_at=datetime.fromisoformat(found["updated_at"]),
        snapshot=found["snapshot"],
    )
