"""A mirror of all instances in Redis, for those who look often and need not ask the database."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from headway.clock import milliseconds
from headway.codec import Value, replace
from headway.engine.engine import Engine
from headway.engine.lease import Lease
from headway.engine.tail import cursor_of, cursor_text
from headway.engine.told import snapshot_of
from headway.engine.watching import WatchingService
from headway.errors import InputError, StoreError
from headway.outbox.destination import DeliveryError
from headway.outbox.redis import Command, RedisServer
from headway.store.port import Changes, EventQuery
from headway.store.rows import Cursor, InstanceRow, Key

PAGE = 200
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


# Only from where the page began: a Redis that was emptied in between has to begin anew.
REACH = """
if (redis.call('GET', KEYS[1]) or '0-0') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
"""


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
    has lost its data gets everything anew. Of many nodes one writes; who writes twice changes nothing.
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
        """Read on from where Redis is: one that was emptied meanwhile is at the beginning."""
        cursor = await self._read_cursor()
        page = await self._store.events(EventQuery(after=cursor, limit=self._page))
        self._held_back = page.held_back
        if page.events or not page.complete:
            rows = await self._store.look_up({(event.tenant, event.instance) for event in page.events})
            await self._write(rows, cursor, page.cursor)
            self.tally["written"] += len(rows)
        return not page.complete

    async def _write(self, rows: Sequence[InstanceRow], before: Cursor, after: Cursor) -> None:
        reached: Command = ("EVAL", REACH, 1, self._place, cursor_text(before), cursor_text(after))
        for answer in await self._server.run([*map(self._command, rows), reached]):
            if isinstance(answer, Exception):
                raise DeliveryError(f"Redis: {answer}")

    async def _read_cursor(self) -> Cursor:
        [found] = await self._server.run([("GET", self._place)])
        if isinstance(found, Exception):
            raise DeliveryError(f"Redis: {found}")
        try:
            return Cursor() if found is None else cursor_of(found.decode())
        except InputError:
            await self._server.run([("DEL", self._place)])
            return Cursor()

    def _command(self, row: InstanceRow) -> Command:
        life = str(int(row.created_at.timestamp() * 1_000_000))
        expires = str(self._keep) if row.ended else ""
        told = replace(row, snapshot=snapshot_of(row, self._engine.charts))
        fields = [part for name in FIELDS for part in (name, _text(getattr(told, name)))]
        return "EVAL", KEEP, 1, self.key((row.tenant, row.id)), life, row.seq, expires, *fields

    def look(self, changes: Changes) -> None:
        """Wake up for lines of history."""
        if changes.history:
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


async def _read(server: RedisServer, prefix: str, key: Key) -> Mirrored | None:
    [answer] = await server.run([("HMGET", _place(prefix, key), *FIELDS)])
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
