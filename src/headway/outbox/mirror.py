"""A mirror of all instances in Redis, for frequent reads that need not go to the database."""

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
from headway.engine.service import LOG, WatchingService
from headway.errors import DeliveryError, InputError, StoreError
from headway.outbox.redis import MOST_BYTES, Command, RedisServer
from headway.store.queries import EventPage, EventQuery
from headway.store.rows import Cursor, EventRow, HistoryRow, InstanceRow, Key
from headway.store.unit import Changes

PAGE = 200
SCANNED = 1_000
"""How many keys one SCAN looks at."""
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
# `life` is the time of creation: it differs for an earlier instance of the same id. Within a life the
# later state has the higher seq. An older state never replaces a later one, whichever node writes it.
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
# Only if the position is unchanged: if Redis was emptied or another node has moved on, it is read again.
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


class LastLine(Value):
    """The last line of history that was mirrored, and its hash."""

    tenant: str
    instance: str
    cursor: Cursor
    hash: str


class MirrorPosition(Value):
    """How far a mirror has come: the last event, and the last line, by which it recognises the log.

    What was pruned up to `swept` is no longer in the mirror. While the mirror is being emptied, `clearing` is
    an id of that.
    """

    cursor: Cursor = Cursor()
    line: LastLine | None = None
    swept: Cursor = Cursor()
    clearing: str | None = None

    @property
    def text(self) -> str:
        """As it is stored in Redis."""
        return encode(self).decode()

    def after(self, page: EventPage) -> MirrorPosition:
        """The position at the end of a page.

        It is that of the last event, not the end of the log: a database that is restored on another server
        may continue below that.
        """
        lines = [event.line for event in page.events if isinstance(event, EventRow)]
        line = _line(lines[-1]) if lines else self.line
        cursor = page.events[-1].cursor if page.events and page.complete else page.cursor
        return replace(self, cursor=cursor, line=line)

    def is_in(self, log: Sequence[HistoryRow], forgotten: Cursor) -> bool:
        """Whether the last line is still where it was in the log, or was pruned."""
        if self.line is None:
            return True
        there = [row for row in log if row.cursor == self.line.cursor]
        return [*map(_line, there)] == [self.line] or (not there and self.line.cursor <= forgotten)


class MirroredInstance(Value):
    """An instance as it is in the mirror."""

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
    """Follows the log and writes the current state of each instance to Redis, with its own position.

    It never delays a send. While Redis is gone it waits, and then continues where it was. All is written
    again to a Redis that has lost its data, and when the database was restored to an earlier time. Instances
    that were pruned are deleted. Of many nodes one writes; writing twice changes nothing.
    """

    name = "mirror"
    transient = (StoreError, DeliveryError)

    def __init__(
        self,
        engine: Engine,
        server: str | RedisServer,
        *,
        prefix: str = "headway",
        keep: str | float = "1h",
        page: int = PAGE,
    ) -> None:
        """`keep` is how long an ended instance stays in the mirror."""
        super().__init__(engine)
        self._server = RedisServer(server) if isinstance(server, str) else server
        self._prefix, self._page = prefix, page
        self._keep = milliseconds(keep)
        self._lease = Lease(engine.store, f"mirror:{prefix}", engine.node, lasts=LEASE_SECONDS)
        self._place = f"{prefix}:cursor"
        self._held_back = False

    async def stop(self) -> None:
        """Stop, and let another node take over."""
        await super().stop()
        with suppress(StoreError):  # without the database the lease runs out by itself
            await self._lease.release()
        await self._server.close()

    async def turn(self) -> bool:
        """Write what is new; True when there is more. Raises DeliveryError without Redis."""
        return await self._lease.hold() and await self._go_on()

    async def rest(self) -> float:
        """Short while an open transaction holds lines back."""
        return 0.02 if self._held_back else self.longest_rest

    async def read(self, tenant: str, instance: str) -> MirroredInstance | None:
        """An instance from the mirror, or None. Raises DeliveryError without Redis."""
        return await _read(self._server, self._prefix, (tenant, instance))

    def key(self, key: Key) -> str:
        """The key of an instance in Redis."""
        return _place(self._prefix, key)

    async def _go_on(self) -> bool:
        """Continue from the position in Redis."""
        place = await self._read_place()
        if place is None:
            await self._begin_anew()
            return True
        last = await self._last_line(place)
        page = await self._store.events.page(EventQuery(after=place.cursor, limit=self._page))
        # Read after the log: otherwise what is pruned in between would be missed.
        forgotten = await self._store.events.forgotten()
        if not place.is_in(last, forgotten):
            LOG.warning("mirror: the database was restored or replaced; Redis gets all instances again")
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
        # Once, when all that was pruned is behind: sweeping at every pruning would stop all progress.
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

    async def _drop(self, place: MirrorPosition, keys: Collection[Key]) -> None:
        """Delete instances, if the position is unchanged."""
        if keys:
            names = [self._place, *map(self.key, keys)]
            await _answers(self._server, [("EVAL", DROP, len(names), *names, place.text)])

    async def _reach(self, before: MirrorPosition, after: MirrorPosition) -> None:
        """Move the position, when all before it is written: what fails is written again."""
        await _answers(self._server, [("EVAL", REACH, 1, self._place, before.text, after.text)])

    async def _read_place(self) -> MirrorPosition | None:
        """The position of the mirror; None if it is unknown."""
        [found] = await _answers(self._server, [("GET", self._place)])
        with suppress(InputError):
            place = None if found is None else decode(MirrorPosition, found)
            return None if place is None or place.clearing else place
        return None

    async def _last_line(self, place: MirrorPosition) -> Sequence[HistoryRow]:
        """The line of the database that is now where the mirror's last line was."""
        line = place.line
        if line is None:
            return ()
        return await self._store.history.page((line.tenant, line.instance), line.cursor.position - 1, 1)

    async def _begin_anew(self) -> None:
        """Delete all instances of the mirror and begin at the first line."""
        clearing = MirrorPosition(swept=await self._store.events.forgotten(), clearing=uuid4().hex)
        await _answers(self._server, [("SET", self._place, clearing.text)])
        async for keys in self._all_keys():
            await self._drop(clearing, keys)
        await self._reach(clearing, replace(clearing, clearing=None))

    async def _sweep(self, place: MirrorPosition) -> None:
        """Delete what was pruned: no line of the log says so."""
        async for keys in self._all_keys():
            rows = await self._store.instances.look_up(keys)
            await self._drop(place, keys - {(row.tenant, row.id) for row in rows})
        self.tally["swept"] += 1

    async def _all_keys(self) -> AsyncIterator[set[Key]]:
        """All instances of the mirror, page by page. Raises DeliveryError if another node has the lease."""
        scan: int = 0
        while True:
            pattern = f"{_escaped(self._prefix)}:[0-9]*"
            command: Command = ("SCAN", scan, "MATCH", pattern, "COUNT", SCANNED, "TYPE", "hash")
            [(scan, names)] = await _answers(self._server, [command])
            keys = {key for name in names if (key := _key(self._prefix, name)) is not None}
            if keys:
                yield keys
            if not scan:
                return
            if not await self._lease.hold():
                raise DeliveryError("another node maintains the mirror now")

    def _command(self, row: InstanceRow) -> Command:
        life = str(int(row.created_at.timestamp() * 1_000_000))
        expires = str(self._keep) if row.ended else ""
        told = replace(row, snapshot=snapshot_of(row, self._engine.charts))
        fields = [part for name in FIELDS for part in (name, _text(getattr(told, name)))]
        return "EVAL", KEEP, 1, self.key((row.tenant, row.id)), life, row.seq, expires, *fields

    def look(self, changes: Changes) -> None:
        """Wake up for lines of history, and for messages: an instance may change without a line."""
        if changes.history or changes.messages:
            self.wake()


class RedisMirror:
    """A mirror in Redis: `Node(…, mirror=RedisMirror(url))` maintains it, and any process can read it."""

    def __init__(
        self, server: str | RedisServer, *, prefix: str = "headway", keep: str | float = "1h"
    ) -> None:
        """`keep` is how long an ended instance stays in the mirror. Raises InputError for a bad URL."""
        self._server = RedisServer(server) if isinstance(server, str) else server
        self._prefix, self._keep = prefix, keep

    def on(self, engine: Engine) -> Mirror:
        """The service that keeps it up to date."""
        return Mirror(engine, self._server, prefix=self._prefix, keep=self._keep)

    async def read(self, tenant: str, instance: str) -> MirroredInstance | None:
        """An instance from the mirror, or None. Raises DeliveryError without Redis."""
        return await _read(self._server, self._prefix, (tenant, instance))

    async def close(self) -> None:
        """Close the connections; the next read opens new ones."""
        await self._server.close()


def _place(prefix: str, key: Key) -> str:
    """The key of an instance; no two tenants share keys, whatever their names."""
    tenant, instance = key
    return f"{prefix}:{len(tenant)}:{tenant}:{instance}"


def _key(prefix: str, name: bytes) -> Key | None:
    """The instance of a key; None for keys that are not of this mirror."""
    size, _, rest = name.decode(errors="replace").removeprefix(f"{prefix}:").partition(":")
    if not SIZE.fullmatch(size) or rest[int(size) : int(size) + 1] != ":":
        return None
    return rest[: int(size)], rest[int(size) + 1 :]


def _line(row: HistoryRow) -> LastLine:
    return LastLine(row.tenant, row.instance, row.cursor, row.hash)


def _escaped(text: str) -> str:
    """A text escaped for a pattern of Redis."""
    return re.sub(r"([\\*?\[\]])", r"\\\1", text)


def _shares(commands: Iterable[Command]) -> Iterator[list[Command]]:
    """Commands in order, as many at a time as reach Redis within its timeout."""
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


async def _read(server: RedisServer, prefix: str, key: Key) -> MirroredInstance | None:
    [answer] = await _answers(server, [("HMGET", _place(prefix, key), *FIELDS)])
    return None if answer[0] is None else _mirrored(key, answer)


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, bool):
        return str(int(value))
    return "" if value is None else str(value)


def _mirrored(key: Key, answer: Sequence[bytes]) -> MirroredInstance:
    found = dict(zip(FIELDS, (part.decode() for part in answer), strict=True))
    return MirroredInstance(
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
