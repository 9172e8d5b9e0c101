"""Reads of single instances: those that have to wait are read together."""

from __future__ import annotations

import asyncio

from headway.store.port import Store
from headway.store.rows import InstanceRow, Key

Asked = tuple[Key, asyncio.Future[InstanceRow | None]]


class Lookups:
    """At most as many reads at once as the store has lanes; who comes meanwhile shares the next one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._busy = 0
        self._waiting: list[Asked] = []
        self._reads: set[asyncio.Task[None]] = set()

    async def instance(self, key: Key) -> InstanceRow | None:
        """An instance as it is stored at some moment after the call, if there is one."""
        if self._busy >= self._store.lanes:
            found = asyncio.get_running_loop().create_future()
            self._waiting.append((key, found))
            return await found  # type: ignore[no-any-return]  # it is an instance, or None
        self._busy += 1
        try:
            return await self._store.instances.get(key)
        finally:
            self._ended()

    def _ended(self) -> None:
        self._busy -= 1
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._busy += 1
            read = asyncio.create_task(self._read(waiting))
            self._reads.add(read)
            read.add_done_callback(self._reads.discard)

    async def _read(self, waiting: list[Asked]) -> None:
        try:
            rows = await self._store.instances.look_up({key for key, _ in waiting})
        except Exception as error:  # noqa: BLE001 - it belongs to those who wait
            for _, found in waiting:
                if not found.done():
                    found.set_exception(error)
        else:
            known = {(row.tenant, row.id): row for row in rows}
            for key, found in waiting:
                if not found.done():
                    found.set_result(known.get(key))
        finally:
            self._ended()
