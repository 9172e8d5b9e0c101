"""`Engine`: create instances, send them events, and see where they stand."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from logging import getLogger
from typing import Any, Self

from headway.codec import DEEPEST, require_depth
from headway.engine.batch import Batch
from headway.engine.commit import Forwarding, stored_snapshot
from headway.engine.facts import Given
from headway.engine.lookups import Lookups
from headway.engine.orders import (
    CURRENT,
    DAY,
    HOUR,
    Answer,
    Creation,
    Order,
    Receipt,
    Upgrading,
    own_id,
    parent_named,
    require_actor,
    require_context,
    require_event,
    require_number,
    require_pairs,
    require_query,
    require_request,
    require_text,
    require_texts,
)
from headway.engine.registry import Registry, keep_versions
from headway.engine.requests import Requests, note_replay
from headway.engine.visibility import Visibility
from headway.engine.why import Explanation, explained
from headway.errors import (
    EngineError,
    HeadwayError,
    InputError,
    StoreUnavailableError,
    TooLargeError,
    UnknownInstanceError,
    UnknownVersionError,
)
from headway.statechart.chart import Charted
from headway.statechart.identity import require_id
from headway.statechart.refusal import is_hidden
from headway.statechart.snapshot import SYSTEM, Actor, Event, Snapshot
from headway.statechart.upgrade.instance import UpgradeRecord
from headway.store.loop_guard import LoopGuard
from headway.store.port import Store
from headway.store.queries import InstanceQuery, Readable
from headway.store.rows import HistoryRow, InstanceRow, Key
from headway.store.unit import Changes

LOG = getLogger("headway")
LARGEST_PAYLOAD = 1_000_000
MOST_IN_A_BATCH = 512
LONGEST_NAME = 400
AROUND = 2
"""Levels of a call around what it carries."""
LONGEST_NEW_NAME = 200

Watcher = Callable[[Changes], None]
Call = tuple[Order, asyncio.Future[None]]


class Engine:
    """Makes every change of a state, on a store.

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
        """`facts` are functions for the facts that stand in no row; `node` names this process, as an id.

        A chart whose version is stored with other contents is refused, unless `charts_may_change`,
        which is for development: instances that live by the old contents may be stranded.
        """
        if node:
            require_id("the name of a node", node)
        self.store = store
        self._lookups = Lookups(store)
        self.charts = Registry(charts, facts)
        self.node = node or f"node-{secrets.token_hex(4)}"
        self.tally: Counter[str] = Counter()
        self.requests = Requests(store, self.tally)
        self.visibility = Visibility(store, self.charts)
        self.handles_here: Callable[[str, str], bool] | None = None
        """Whether a worker in this process handles (queue, handler); None if it has no worker."""
        self._charts_may_change = charts_may_change
        self._waiting: list[Call] = []
        self._busy = 0
        self._crowded = False
        self._alone: deque[Call] = deque()
        self._idle: asyncio.Event | None = None
        self._guard = LoopGuard(self._drop_leftovers)
        self._watchers: list[Watcher] = []

    async def open(self) -> None:
        """Open the store and keep the charts' versions.

        Raises SchemaError, StoreUnavailableError, and ChartChangedError.
        """
        self._guard.bind()
        try:
            await self.store.open()
            try:
                await keep_versions(self.store, self.charts, may_change=self._charts_may_change)
            except BaseException:
                await self.store.close()
                raise
        except BaseException:
            self._guard.release()
            raise
        for name, parents in self.charts.spawned_unknown().items():
            LOG.warning(
                "%s spawns %s, which is not registered: give the engine that chart too, or the event that"
                " spawns one will fail",
                " and ".join(parents),
                name,
            )

    async def close(self) -> None:
        """Finish the calls under way and close the store."""
        self.require_loop()
        while self._busy or self._waiting:
            if self._idle is None or self._idle.is_set():
                self._idle = asyncio.Event()
            await self._idle.wait()
        await self.store.close()
        self._guard.release()

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
        unnamed: bool = False,
    ) -> Answer:
        """Begin a life. Raises UnknownChartError, InstanceExistsError, RequestReusedError, TooLargeError.

        With `unnamed`, `instance` is an id made up for this call: a repeat of the request id may bring
        another one, and gets the receipt of the first.
        """
        require_text("instance", instance)
        require_context(context)
        require_actor("by", by)
        require_request(request_id)
        require_number("seed", seed)
        name = chart if isinstance(chart, str) else self.charts.registered(chart).name
        creation = Creation(chart=name, context=context, by=by, seed=seed)
        return await self._ask(Order((tenant, instance), creation, request_id, DAY, unnamed=unnamed))

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
        require_event(instance, event, request_id, expected_seq)
        order = Order((tenant, instance), event, request_id, lasts, expected_seq)
        order.keeps_refusals = keeps_refusals
        return await self._ask(order)

    async def send_many(
        self, tenant: str, events: Sequence[tuple[str, Event]], *, request_id: str | None = None
    ) -> Sequence[Answer | BaseException]:
        """Send events to instances; each gets its own answer, or its own error.

        With a request id each event has one of its own, made of it and its place in the list.
        """
        require_pairs(events)
        require_request(request_id)
        ids = [own_id("many", request_id, number) if request_id else None for number in range(len(events))]
        return await self.send_all([((tenant, name), event) for name, event in events], ids)

    async def send_all(
        self, events: Sequence[tuple[Key, Event]], request_ids: Sequence[str | None] = ()
    ) -> Sequence[Answer | BaseException]:
        """Send events to instances of any tenant, in this order; each gets its own answer or error."""
        ids = request_ids or [None] * len(events)
        orders = [Order(key, event, own) for (key, event), own in zip(events, ids, strict=True)]
        loop, trace = self.require_loop(), CURRENT.get()
        for order in orders:
            order.trace = trace
        calls = [(order, loop.create_future()) for order in orders if _passes(order)]
        self._wait(loop, *calls)
        await asyncio.gather(*(decided for _, decided in calls))
        return [self._outcome(order) for order in orders]

    async def forward(
        self, tenant: str, instance: str, event: Event, *, request_id: str | None = None
    ) -> None:
        """Have an event sent by a node that knows the version of the instance, as this one does not."""
        unit = Forwarding((tenant, instance), event, request_id=request_id, trace=CURRENT.get())
        await self.store.run(unit)
        self._show(unit.changes())

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
        expected_seq: int | None = None,
        children: bool = True,
    ) -> Answer:
        """Send the event that the chart names as its `cancel`, and the like to the children.

        Raises as `send` does, and EngineError when the chart cannot be cancelled.
        """
        require_actor("by", by)
        require_texts(reason=reason, request_id=request_id)
        snapshot = await self.get(tenant, instance)
        try:
            chart = self.charts.chart(snapshot.chart, snapshot.version)
        except UnknownVersionError:
            await self._require_shown((tenant, instance), by)
            raise
        name = chart.model.cancel
        if name is None:
            if is_hidden(chart, snapshot, by):
                raise UnknownInstanceError(f"there is no instance {instance}")
            raise EngineError(f"chart {snapshot.chart} cannot be cancelled: it declares no cancel event")
        event = Event(name, by=by, reason=reason)
        order = Order((tenant, instance), event, request_id, lasts, expected_seq, cascades=children)
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
        record: UpgradeRecord | None = None,
        expected_seq: int | None = None,
    ) -> Answer:
        """Change an instance to another version of its chart; with a `record`, back to where it was.

        Raises UpgradeError when it cannot be, and as `send` does.
        """
        act = Upgrading(to=to, by=by, reason=reason, acted=acted or {}, record=record)
        return await self._ask(Order((tenant, instance), act, expected_seq=expected_seq))

    async def get(self, tenant: str, instance: str) -> Snapshot:
        """Where an instance stands; raises UnknownInstanceError."""
        return stored_snapshot(await self.row(tenant, instance))

    async def row(self, tenant: str, instance: str) -> InstanceRow:
        """An instance as it is stored; raises UnknownInstanceError."""
        require_text("instance", instance)
        self.require_loop()
        row = await self._lookups.instance((tenant, instance))
        if row is None:
            raise UnknownInstanceError(f"there is no instance {instance}")
        return row

    async def list(self, query: InstanceQuery) -> Sequence[InstanceRow]:
        """A page of instances."""
        require_query(query)
        return await self.store.instances.page(query)

    async def history(
        self, tenant: str, instance: str, *, after: int = 0, limit: int = 100
    ) -> Sequence[HistoryRow]:
        """A page of an instance's history."""
        require_text("instance", instance)
        require_number("after", after, least=0)
        require_number("limit", limit, least=1)
        return await self.store.history.page((tenant, instance), after, limit)

    async def why(self, tenant: str, instance: str, *, readable: Readable | None = None) -> Explanation:
        """What an instance waits for, who or what could move it, and what stands in the way.

        With `readable` it lists only children that may be read.
        """
        snapshot = await self.get(tenant, instance)
        here = self.handles_here
        return await explained(self.store, self.charts, tenant, snapshot, handles=here, readable=readable)

    async def _ask(self, order: Order) -> Answer:
        _check(order)
        order.trace = CURRENT.get()
        loop = self.require_loop()
        decided = loop.create_future()
        self._wait(loop, (order, decided))
        await decided
        outcome = self._outcome(order)
        if isinstance(outcome, UnknownVersionError) and isinstance(order.act, Event):
            await self._require_shown(order.key, order.act.by)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def _require_shown(self, key: Key, by: Actor) -> None:
        """Raises UnknownInstanceError if `by` must not learn of an instance; this node lacks its version."""
        row = await self.row(*key)
        chart = await self.visibility.chart(row)
        if by.own if chart is None else is_hidden(chart, stored_snapshot(row), by):
            raise UnknownInstanceError(f"there is no instance {key[1]}")

    def _wait(self, loop: asyncio.AbstractEventLoop, *calls: Call) -> None:
        """Let calls be in the next batch."""
        seen_to = self._waiting or self._busy >= self.store.lanes
        self._waiting += calls
        if seen_to:
            return
        if self._crowded or self._busy:
            # Those who were answered together are about to ask again together: let all of them come.
            loop.call_soon(self._launch)
        else:
            self._launch()

    def require_loop(self) -> asyncio.AbstractEventLoop:
        """The running loop; raises WrongLoopError if the engine is used from another one."""
        return self._guard.enter()

    def _drop_leftovers(self) -> None:
        """What was under way on a loop that was closed will never be heard of again."""
        self._busy, self._waiting, self._idle = 0, [], None
        self._alone.clear()
        self._lookups = Lookups(self.store)
        self.requests.forget()

    def _outcome(self, order: Order) -> Answer | BaseException:
        """What a call that is decided has led to; it is counted."""
        if order.error is not None:
            self.tally[type(order.error).__name__] += 1
            return order.error
        assert order.answer is not None
        if order.replayed:
            self.tally["replayed"] += 1
            note_replay()
        else:
            self.tally["transitions" if isinstance(order.answer, Receipt) else "refused"] += 1
        return order.answer

    def _launch(self) -> None:
        """Commit what waits, as far as there are lanes for it."""
        while self._busy < self.store.lanes:
            if self._alone and self._busy:
                break  # one after the other, so that they keep their order
            if self._alone:
                calls = [self._alone.popleft()]
            elif self._waiting:
                calls, self._waiting = self._waiting[:MOST_IN_A_BATCH], self._waiting[MOST_IN_A_BATCH:]
                self._crowded = len(calls) > 1
            else:
                break
            self._busy += 1
            unit = Batch(self.charts, [order for order, _ in calls])
            self.store.submit(unit, partial(self._ended, calls, unit))

    def _ended(self, calls: Sequence[Call], unit: Batch, error: BaseException | None) -> None:
        """A batch is committed, or has failed as a whole; continue with what arrived meanwhile."""
        self._busy -= 1
        if error is None:
            self._show(unit.written)
            _tell(calls, None)
        elif len(calls) == 1 or isinstance(error, StoreUnavailableError):
            _tell(calls, error)
        else:
            # Something that one order has brought along cannot be stored; its neighbours must not suffer.
            self._alone.extend(calls)
        self._launch()
        if not self._busy and self._idle is not None:
            self._idle.set()

    def _show(self, written: Changes) -> None:
        """A watcher that fails must not make those believe in a failure whose event is committed."""
        for watcher in tuple(self._watchers):
            try:
                watcher(written)
            except Exception:
                LOG.exception("a watcher of the engine failed")


def _check(order: Order) -> None:
    order.require_json()
    body = order.fingerprint().encode()
    require_depth(body, DEEPEST + AROUND)
    size = len(body)
    if size > LARGEST_PAYLOAD:
        raise TooLargeError(f"a call may carry at most {LARGEST_PAYLOAD:,} bytes, not {size:,}")
    if not all(order.key):
        raise InputError("tenant and instance must not be empty")
    if order.request_id == "":
        raise InputError("a request id must not be empty; leave it out instead")
    if isinstance(order.act, Creation):
        _check_new_name(order.key[1])
    names = "".join((*order.key, order.request_id or ""))
    if len(names) > LONGEST_NAME and max(map(len, (*order.key, order.request_id or ""))) > LONGEST_NAME:
        raise TooLargeError(f"tenants, instances and request ids must have at most {LONGEST_NAME} characters")
    if "\0" in names:
        raise InputError("tenants, instances and request ids must not contain NUL characters")


def _passes(order: Order) -> bool:
    """Whether a call may be tried; if not, it has its error."""
    try:
        _check(order)
    except HeadwayError as error:
        order.error = error
    return order.error is None


def _check_new_name(name: str) -> None:
    """Children are named after their parents: there must be room, and nobody else may take such a name."""
    if len(name) > LONGEST_NEW_NAME:
        raise TooLargeError(f"the name of a new instance must have at most {LONGEST_NEW_NAME} characters")
    if parent_named(name) is not None:
        raise InputError(f"{name} is reserved: names of this form are for children of another instance")


def _tell(calls: Iterable[Call], failure: BaseException | None) -> None:
    for order, decided in calls:
        if failure is not None:
            order.answer, order.error = None, failure
        if not decided.done():
            decided.set_result(None)
