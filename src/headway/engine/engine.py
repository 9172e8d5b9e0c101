"""`Engine`: create instances, send them events, and see where they stand."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Self

from headway.codec import decode
from headway.engine.batch import Batch
from headway.engine.facts import Given
from headway.engine.orders import DAY, HOUR, Answer, Creation, Order, Receipt, Upgrading
from headway.engine.registry import Registry
from headway.engine.service import LOG
from headway.engine.versions import keep_versions
from headway.engine.why import Explanation, explained
from headway.errors import (
    EngineError,
    InputError,
    StoreUnavailableError,
    TooLargeError,
    UnknownInstanceError,
)
from headway.statechart.chart import Charted
from headway.statechart.remap import Before
from headway.statechart.snapshot import SYSTEM, Actor, Event, Snapshot
from headway.store.port import Changes, InstanceQuery, Store
from headway.store.rows import HistoryRow, InstanceRow, Key

LARGEST_PAYLOAD = 1_000_000
MOST_IN_A_BATCH = 512
LONGEST_NAME = 400
LONGEST_NEW_NAME = 200
CHILD = re.compile(r":\d+:\d+$")

Watcher = Callable[[Changes], None]


class Engine:
    """One door for every change of a state, on a store.

    Calls that come while a transaction is under way wait together and go into the next one: no call
    waits for others at low load, and at high load a commit is shared by hundreds.
    """

    def __init__(
        self,
        store: Store,
        charts: Iterable[Charted] = (),
        *,
        facts: Given | None = None,
        node: str = "",
        charts_may_change: bool = False,
    ) -> None:
        """`facts` are functions for the facts that stand in no row; `node` names this process.

        A chart whose version is stored with other contents is refused, unless `charts_may_change`,
        which is for development: instances that live by the old contents may be stranded.
        """
        self.store = store
        self.charts = Registry(charts, facts)
        self.node = node or f"node-{secrets.token_hex(4)}"
        self.tally: Counter[str] = Counter()
        self._charts_may_change = charts_may_change
        self._waiting: list[tuple[Order, asyncio.Future[None]]] = []
        self._lanes: set[asyncio.Task[None]] = set()
        self._watchers: list[Watcher] = []

    async def open(self) -> None:
        """Open the store and keep the charts' versions.

        Raises SchemaError, StoreUnavailableError, and ChartChangedError.
        """
        await self.store.open()
        try:
            await keep_versions(self.store, self.charts, may_change=self._charts_may_change)
        except BaseException:
            await self.store.close()
            raise

    async def close(self) -> None:
        """Finish the calls under way and close the store."""
        while self._lanes:
            await asyncio.wait(self._lanes)
        await self.store.close()

    async def __aenter__(self) -> Self:
        """Open for the length of a block."""
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close at the end of the block."""
        await self.close()

    def watch(self, watcher: Watcher) -> None:
        """Call back, on the event loop, after each commit that this engine has made."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """No longer call back."""
        self._watchers.remove(watcher)

    async def create(
        self,
        tenant: str,
        instance: str,
        chart: str | Charted,
        *,
        context: Mapping[str, Any] | None = None,
        by: Actor = SYSTEM,
        seed: int = 0,
        request_id: str | None = None,
    ) -> Answer:
        """Begin a life. Raises UnknownChartError, InstanceExistsError, RequestReusedError, TooLargeError."""
        name = chart if isinstance(chart, str) else self.charts.registered(chart).name
        creation = Creation(chart=name, context=context, by=by, seed=seed)
        return await self._ask(Order((tenant, instance), creation, request_id, DAY))

    async def send(
        self,
        tenant: str,
        instance: str,
        event: Event,
        *,
        request_id: str | None = None,
        lasts: timedelta = HOUR,
        keeps_refusals: bool = True,
        expected_seq: int | None = None,
    ) -> Answer:
        """Send an event; a repeat of a request id gets the first answer for as long as it `lasts`.

        Raises UnknownInstanceError, VersionConflictError, RequestReusedError and TooLargeError.
        """
        order = Order((tenant, instance), event, request_id, lasts, expected_seq)
        order.keeps_refusals = keeps_refusals
        return await self._ask(order)

    async def send_many(
        self, tenant: str, events: Sequence[tuple[str, Event]], *, request_id: str | None = None
    ) -> Sequence[Answer | BaseException]:
        """Send events to instances; each gets its own answer, or its own error.

        With a request id each event has one of its own, made of it and its place in the list.
        """
        ids = [f"{request_id}/{number}" if request_id else None for number in range(len(events))]
        return await self.send_all([((tenant, name), event) for name, event in events], ids)

    async def send_all(
        self, events: Sequence[tuple[Key, Event]], request_ids: Sequence[str | None] = ()
    ) -> Sequence[Answer | BaseException]:
        """Send events to instances of any tenant, in this order; each gets its own answer or error."""
        ids = request_ids or [None] * len(events)
        orders = [Order(key, event, own) for (key, event), own in zip(events, ids, strict=True)]
        return await asyncio.gather(*map(self._ask, orders), return_exceptions=True)

    async def cancel(
        self,
        tenant: str,
        instance: str,
        *,
        by: Actor = SYSTEM,
        reason: str | None = None,
        request_id: str | None = None,
        lasts: timedelta = HOUR,
        keeps_refusals: bool = True,
        children: bool = True,
    ) -> Answer:
        """Send the event that the chart names as its `cancel`, and the like to the children.

        Raises as `send` does, and EngineError when the chart cannot be cancelled.
        """
        snapshot = await self.get(tenant, instance)
        name = self.charts.chart(snapshot.chart, snapshot.version).model.cancel
        if name is None:
            raise EngineError(f"chart {snapshot.chart} cannot be cancelled: it names no event for it")
        event = Event(name, by=by, reason=reason)
        order = Order((tenant, instance), event, request_id, lasts, cascades=children)
        order.keeps_refusals = keeps_refusals
        return await self._ask(order)

    async def upgrade(
        self,
        tenant: str,
        instance: str,
        to: int,
        *,
        by: Actor = SYSTEM,
        reason: str | None = None,
        acted: dict[str, tuple[str, ...]] | None = None,
        record: Before | None = None,
        expected_seq: int | None = None,
    ) -> Answer:
        """Change an instance to another version of its chart; with a `record`, back to where it was.

        Raises UpgradeError when it cannot be, and as `send` does.
        """
        act = Upgrading(to, by, reason, acted or {}, record)
        return await self._ask(Order((tenant, instance), act, expected_seq=expected_seq))

    async def get(self, tenant: str, instance: str) -> Snapshot:
        """Where an instance stands; raises UnknownInstanceError."""
        return decode(Snapshot, (await self.row(tenant, instance)).snapshot)

    async def row(self, tenant: str, instance: str) -> InstanceRow:
        """An instance as it is stored; raises UnknownInstanceError."""
        row = await self.store.instance((tenant, instance))
        if row is None:
            raise UnknownInstanceError(f"there is no instance {instance}")
        return row

    async def list(self, query: InstanceQuery) -> Sequence[InstanceRow]:
        """A page of instances."""
        return await self.store.instances(query)

    async def history(
        self, tenant: str, instance: str, *, after: int = 0, limit: int = 100
    ) -> Sequence[HistoryRow]:
        """A page of an instance's history."""
        return await self.store.history((tenant, instance), after, limit)

    async def why(self, tenant: str, instance: str) -> Explanation:
        """What an instance waits for, who or what could move it, and what stands in the way."""
        snapshot = await self.get(tenant, instance)
        return await explained(self.store, self.charts, tenant, snapshot)

    async def _ask(self, order: Order) -> Answer:
        _check(order)
        decided = asyncio.get_running_loop().create_future()
        self._waiting.append((order, decided))
        if len(self._lanes) < self.store.lanes:
            self._lanes.add(asyncio.create_task(self._commit()))
        await decided
        if order.error is not None:
            self.tally[type(order.error).__name__] += 1
            raise order.error
        assert order.answer is not None
        self._count(order)
        return order.answer

    def _count(self, order: Order) -> None:
        if order.replayed:
            self.tally["replayed"] += 1
        elif isinstance(order.answer, Receipt):
            self.tally["transitions"] += 1
        else:
            self.tally["refused"] += 1

    async def _commit(self) -> None:
        """Commit what waits, again and again, until nothing does."""
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST_IN_A_BATCH], self._waiting[MOST_IN_A_BATCH:]
            try:
                await self._run([order for order, _ in batch])
            except Exception as error:  # noqa: BLE001 - whatever it is, the senders must hear of it
                _tell(batch, error)
            else:
                _tell(batch, None)
        # Not in a callback: a sender that goes on before it would believe that someone takes its call.
        self._lanes.discard(asyncio.current_task())

    async def _run(self, orders: Sequence[Order]) -> None:
        unit = Batch(self.charts, orders)
        try:
            await self.store.run(unit)
        except StoreUnavailableError:
            raise
        except Exception:
            if len(orders) == 1:
                raise
            await self._run_singly(orders)
        else:
            self._show(unit.written)

    def _show(self, written: Changes) -> None:
        """A watcher that fails must not make those believe in a failure whose event is committed."""
        for watcher in tuple(self._watchers):
            try:
                watcher(written)
            except Exception:  # noqa: BLE001 - it is logged, and the sender's event is committed
                LOG.exception("someone who watches the engine failed")

    async def _run_singly(self, orders: Sequence[Order]) -> None:
        """Something that one order has brought along cannot be stored; its neighbours must not suffer."""
        for order in orders:
            try:
                await self._run([order])
            except Exception as error:  # noqa: BLE001 - it is this order's own
                order.answer, order.error = None, error


def _check(order: Order) -> None:
    order.require_json()
    size = len(order.fingerprint().encode())
    if size > LARGEST_PAYLOAD:
        raise TooLargeError(f"a call carries at most {LARGEST_PAYLOAD:,} bytes, not {size:,}")
    if not all(order.key):
        raise InputError("a tenant and an instance have a name")
    if order.request_id == "":
        raise InputError("a request id is not empty; leave it out to have none")
    if isinstance(order.act, Creation):
        _check_new_name(order.key[1])
    if max(map(len, (*order.key, order.request_id or ""))) > LONGEST_NAME:
        raise TooLargeError(f"tenants, instances and request ids have at most {LONGEST_NAME} characters")


def _check_new_name(name: str) -> None:
    """Children are named after their parents: there must be room, and nobody else may take such a name."""
    if len(name) > LONGEST_NEW_NAME:
        raise TooLargeError(f"a new instance has a name of at most {LONGEST_NEW_NAME} characters")
    if CHILD.search(name):
        raise InputError(f"{name} is a name for a child, which only its parent gives")


def _tell(batch: Iterable[tuple[Order, asyncio.Future[None]]], failure: Exception | None) -> None:
    for _, decided in batch:
        if decided.done():
            continue
        if failure is None:
            decided.set_result(None)
        else:
            decided.set_exception(failure)
