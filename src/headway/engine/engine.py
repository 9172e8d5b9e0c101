"""`Engine`: create instances, send them events, and see where they stand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Self

from headway.codec import decode, encode
from headway.engine.batch import Batch
from headway.engine.orders import DAY, HOUR, Answer, Creation, Order
from headway.engine.registry import Registry
from headway.errors import EngineError, TooLargeError, UnknownInstanceError
from headway.statechart.chart import Charted
from headway.statechart.explain import Why, explain
from headway.statechart.snapshot import SYSTEM, Actor, Event, Snapshot
from headway.store.port import InstanceQuery, Store
from headway.store.rows import HistoryRow, InstanceRow

LARGEST_PAYLOAD = 1_000_000
MOST_IN_A_BATCH = 512


class Engine:
    """One door for every change of a state, on a store.

    Calls that come while a transaction is under way wait together and go into the next one: no call
    waits for others at low load, and at high load a commit is shared by hundreds.
    """

    def __init__(self, store: Store, charts: Iterable[Charted] = ()) -> None:
        self.store = store
        self.charts = Registry(charts)
        self._waiting: list[tuple[Order, asyncio.Future[None]]] = []
        self._pump: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open the store; raises SchemaError and StoreUnavailableError."""
        await self.store.open()

    async def close(self) -> None:
        """Finish the calls under way and close the store."""
        if self._pump is not None:
            await self._pump
        await self.store.close()

    async def __aenter__(self) -> Self:
        """Open for the length of a block."""
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close at the end of the block."""
        await self.close()

    async def create(
        self,
        tenant: str,
        instance: str,
        chart: str,
        *,
        context: Mapping[str, Any] | None = None,
        by: Actor = SYSTEM,
        seed: int = 0,
        request_id: str | None = None,
    ) -> Answer:
        """Begin a life. Raises UnknownChartError, InstanceExistsError, RequestReusedError, TooLargeError."""
        creation = Creation(chart=chart, context=context, by=by, seed=seed)
        return await self._ask(Order((tenant, instance), creation, request_id, DAY))

    async def send(
        self,
        tenant: str,
        instance: str,
        event: Event,
        *,
        request_id: str | None = None,
        lasts: timedelta = HOUR,
        expected_seq: int | None = None,
    ) -> Answer:
        """Send an event.

        Raises UnknownInstanceError, VersionConflictError, RequestReusedError and TooLargeError.
        """
        return await self._ask(Order((tenant, instance), event, request_id, lasts, expected_seq))

    async def send_many(self, tenant: str, events: Sequence[tuple[str, Event]]) -> list[Answer | EngineError]:
        """Send events to instances; each gets its own answer, or its own error."""
        calls = [self.send(tenant, instance, event) for instance, event in events]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, EngineError):
                raise answer
        return answers  # type: ignore[return-value]  # whatever else was raised above

    async def get(self, tenant: str, instance: str) -> Snapshot:
        """Where an instance stands; raises UnknownInstanceError."""
        row = await self.store.instance((tenant, instance))
        if row is None:
            raise UnknownInstanceError(f"there is no instance {instance}")
        return decode(Snapshot, row.snapshot)

    async def list(self, query: InstanceQuery) -> Sequence[InstanceRow]:
        """A page of instances."""
        return await self.store.instances(query)

    async def history(
        self, tenant: str, instance: str, *, after: int = 0, limit: int = 100
    ) -> Sequence[HistoryRow]:
        """A page of an instance's history."""
        return await self.store.history((tenant, instance), after, limit)

    async def why(self, tenant: str, instance: str) -> Why:
        """What an instance waits for, and who or what could move it."""
        snapshot = await self.get(tenant, instance)
        chart = self.charts.chart(snapshot.chart, snapshot.version)
        return explain(chart, snapshot, await self.store.now())

    async def _ask(self, order: Order) -> Answer:
        size = len(encode(order.act))
        if size > LARGEST_PAYLOAD:
            raise TooLargeError(f"a call carries at most {LARGEST_PAYLOAD:,} bytes, not {size:,}")
        decided = asyncio.get_running_loop().create_future()
        self._waiting.append((order, decided))
        if self._pump is None:
            self._pump = asyncio.create_task(self._commit())
        await decided
        if order.error is not None:
            raise order.error
        assert order.answer is not None
        return order.answer

    async def _commit(self) -> None:
        """Commit what waits, again and again, until nothing does."""
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST_IN_A_BATCH], self._waiting[MOST_IN_A_BATCH:]
            failure: Exception | None = None
            try:
                await self.store.run(Batch(self.charts, [order for order, _ in batch]))
            except Exception as error:  # noqa: BLE001 - whatever it is, the senders must hear of it
                failure = error
            for _, decided in batch:
                if decided.done():
                    continue
                if failure is None:
                    decided.set_result(None)
                else:
                    decided.set_exception(failure)
        self._pump = None
