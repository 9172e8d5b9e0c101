"""Many calls in one transaction: a unit that decides them in order, each as if it were alone."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from datetime import UTC, datetime
from typing import Any

from headway.codec import decode
from headway.engine.commit import Commit, instance_row, write_effects, write_ends, write_history
from headway.engine.facts import fact_reads, fact_values
from headway.engine.orders import Answer, Creation, Order, Receipt, answer_of, answer_text
from headway.engine.registry import Registry
from headway.errors import (
    HeadwayError,
    InstanceExistsError,
    RequestReusedError,
    UnknownInstanceError,
    VersionConflictError,
)
from headway.statechart.chart import Chart
from headway.statechart.effects import AddToCounter, ReportToParent, SpawnChild
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Event, Snapshot, child_changed
from headway.statechart.step import Step, start, status_of, step
from headway.store.port import Changes, Found, Reads
from headway.store.rows import InstanceRow, Key, RequestRow

Asking = Generator[Reads, Found, None]
MISSING = object()
LISTS = (
    "history",
    "timers",
    "timers_gone",
    "work",
    "work_gone",
    "asks",
    "asks_closed",
    "messages",
    "requests",
    "records",
)
"""The rows an order adds; instances are written once, at the end."""


class Living:
    """An instance as the batch sees it: as it was stored, and as it is after the calls decided so far."""

    __slots__ = ("created_at", "snapshot", "stored")

    def __init__(self, snapshot: Snapshot, created_at: datetime, *, stored: bool) -> None:
        self.snapshot = snapshot
        self.created_at = created_at
        self.stored = stored


class Batch:
    """A unit of many orders. A bad order gets its error and leaves no trace; its neighbours go on."""

    def __init__(self, registry: Registry, orders: list[Order]) -> None:
        self.registry = registry
        self.orders = orders

    def begin(self) -> Reads:
        """Forget everything; ask for the instances and request ids of all orders."""
        self.now = datetime.min.replace(tzinfo=UTC)
        self.living: dict[Key, Living | None] = {}
        self.touched: dict[Key, None] = {}
        self.requests: dict[Key, RequestRow | None] = {}
        self.counters: dict[Key, int] = {}
        self.records: dict[tuple[str, str, str], Any] = {}
        self.written = Changes()
        self._script = self._decide_all()
        return next(self._script)

    def take(self, found: Found) -> Reads | None:
        """Go on with what was found; None when every order is decided."""
        try:
            return self._script.send(found)
        except StopIteration:
            return None

    def changes(self) -> Changes:
        """All rows of the batch; an instance that several orders changed is written once."""
        for key in self.touched:
            living = self.living[key]
            assert living is not None
            chart = self._chart(living.snapshot)
            status = status_of(chart, living.snapshot.states) or ""
            row = instance_row(key, living.snapshot, status, created_at=living.created_at, now=self.now)
            (self.written.updated if living.stored else self.written.created).append(row)
        return self.written

    def _decide_all(self) -> Asking:
        keys = {order.key for order in self.orders}
        requests = {(order.key[0], order.request_id) for order in self.orders if order.request_id}
        yield from self._load(instances=keys, requests=requests)
        for order in self.orders:
            self.undo = Undo(self.written)
            try:
                yield from self._decide(order)
            except HeadwayError as error:
                self.undo.all()
                order.error = error

    def _load(
        self,
        instances: Iterable[Key] = (),
        requests: Iterable[Key] = (),
        counters: Iterable[Key] = (),
        records: Iterable[tuple[str, str, str]] = (),
    ) -> Asking:
        """Ask for what is not known yet."""
        reads = Reads(
            {key for key in instances if key not in self.living},
            {key for key in requests if key not in self.requests},
            {key for key in counters if key not in self.counters},
            {key for key in records if key not in self.records},
        )
        if not (reads.instances or reads.requests or reads.counters or reads.records):
            return
        found = yield reads
        self.now = max(self.now, found.now)
        for key in reads.instances:
            self.living[key] = _living(found.instances.get(key))
        for key in reads.requests:
            self.requests[key] = found.requests.get(key)
        for key in reads.counters:
            self.counters[key] = found.counters.get(key, 0)
        for record in reads.records:
            row = found.records.get(record)
            self.records[record] = None if row is None else decode(object, row.data)

    def _decide(self, order: Order) -> Asking:
        order.answer, order.error, order.replayed = None, None, False
        if order.request_id is not None and self._replay(order):
            return
        if isinstance(order.act, Creation):
            answer = yield from self._create(order.key, order.act)
        else:
            answer = yield from self._send(order, order.act)
        order.answer = answer
        if order.request_id is not None:
            self._remember(order, answer)

    def _replay(self, order: Order) -> bool:
        """Whether the request id has an answer already; the order gets it."""
        known = self.requests.get((order.key[0], order.request_id or ""))
        if known is None or known.expires_at <= self.now:
            return False
        if known.body != order.fingerprint():
            raise RequestReusedError(f"request id {order.request_id} was used for another call")
        order.answer = answer_of(known.answer)
        order.replayed = True
        return True

    def _remember(self, order: Order, answer: Answer) -> None:
        key = (order.key[0], order.request_id or "")
        expires_at = self.now + order.lasts
        row = RequestRow(*key, order.fingerprint(), answer_text(answer), expires_at)
        self.undo.put(self.requests, key, row)
        self.written.requests.append(row)

    def _create(self, key: Key, creation: Creation) -> Generator[Reads, Found, Answer]:
        if self.living.get(key) is not None:
            raise InstanceExistsError(f"an instance {key[1]} exists already")
        chart = self.registry.newest(creation.chart)
        blank = Snapshot(chart.name, chart.version, key[1], context=dict(creation.context or {}))
        yield from self._load(**fact_reads(chart, key[0], blank))
        outcome = start(
            chart,
            key[1],
            now=self.now,
            context=creation.context,
            by=creation.by,
            facts=fact_values(chart, key[0], blank, counters=self.counters, records=self.records),
            seed=creation.seed,
            parent=creation.parent,
            depth=creation.depth,
        )
        if isinstance(outcome, Refusal):
            return outcome
        self.undo.put(self.living, key, Living(outcome.snapshot, self.now, stored=False))
        yield from self._apply(key, None, outcome)
        return self._receipt(key, chart)

    def _send(self, order: Order, event: Event) -> Generator[Reads, Found, Answer]:
        living = self.living.get(order.key)
        if living is None:
            raise UnknownInstanceError(f"there is no instance {order.key[1]}")
        seq = living.snapshot.seq
        if order.expected_seq is not None and order.expected_seq != seq:
            message = f"{order.key[1]} is at {seq}, not at {order.expected_seq}"
            raise VersionConflictError(message, seq)
        outcome = yield from self._step(order.key, living, event)
        return outcome if isinstance(outcome, Refusal) else self._receipt(order.key, None)

    def _step(self, key: Key, living: Living, event: Event) -> Generator[Reads, Found, Step | Refusal]:
        """Decide one event for one instance, with what follows from it for others."""
        before = living.snapshot
        chart = self._chart(before)
        if chart.model.facts:
            yield from self._load(**fact_reads(chart, key[0], before))
            facts = fact_values(chart, key[0], before, counters=self.counters, records=self.records)
            outcome = step(chart, before, event, self.now, facts=facts)
        else:
            outcome = step(chart, before, event, self.now)
        if isinstance(outcome, Step):
            after = Living(outcome.snapshot, living.created_at, stored=living.stored)
            self.undo.put(self.living, key, after)
            yield from self._apply(key, before, outcome)
        return outcome

    def _apply(self, key: Key, before: Snapshot | None, done: Step) -> Asking:
        self.undo.put(self.touched, key, None)
        commit = Commit(self.written, key, self.now)
        write_history(commit, done.history)
        if before is not None:
            write_ends(commit, before, done.snapshot)
        write_effects(commit, done.effects)
        for effect in done.effects:
            if isinstance(effect, AddToCounter):
                self._count((key[0], effect.key), effect.by)
            elif isinstance(effect, ReportToParent):
                yield from self._report(key, effect)
            elif isinstance(effect, SpawnChild):
                yield from self._spawn(key, effect)

    def _count(self, counter: Key, by: int) -> None:
        """Add to a counter, for the store and for the guards of the orders that follow."""
        for totals in (self.written.counters, self.counters):
            if totals is self.written.counters or counter in totals:
                self.undo.put(totals, counter, totals.get(counter, 0) + by)

    def _report(self, child: Key, report: ReportToParent) -> Asking:
        """A child's change reaches its parent in the same transaction, under the parent's lock."""
        parent = (child[0], report.parent)
        yield from self._load(instances=[parent])
        living = self.living[parent]
        if living is not None and not living.snapshot.ended:
            event = child_changed(child[1], report.before, report.after, report.errors)
            yield from self._step(parent, living, event)

    def _spawn(self, parent: Key, spawn: SpawnChild) -> Asking:
        """A child is created in the same transaction; its first status is its first report."""
        key = (parent[0], spawn.child)
        chart = self.registry.newest(spawn.chart)
        outcome = start(
            chart, spawn.child, now=self.now, context=spawn.context, parent=parent[1], depth=spawn.depth
        )
        if isinstance(outcome, Refusal):
            raise InstanceExistsError(f"the child {spawn.child} cannot begin: {outcome.message}")
        self.undo.put(self.living, key, Living(outcome.snapshot, self.now, stored=False))
        yield from self._apply(key, None, outcome)

    def _receipt(self, key: Key, chart: Chart | None) -> Receipt:
        living = self.living[key]
        assert living is not None
        snapshot = living.snapshot
        status = status_of(chart or self._chart(snapshot), snapshot.states) or ""
        return Receipt(
            key[1], snapshot.chart, snapshot.version, snapshot.seq, status, snapshot.states, snapshot.ended
        )

    def _chart(self, snapshot: Snapshot) -> Chart:
        return self.registry.chart(snapshot.chart, snapshot.version)


class Undo:
    """What an order has changed so far, so that a bad one leaves no trace."""

    __slots__ = ("_lengths", "_replaced", "_written")

    def __init__(self, written: Changes) -> None:
        self._written = written
        self._lengths = [len(getattr(written, name)) for name in LISTS]
        self._replaced: list[tuple[dict[Any, Any], Any, Any]] = []

    def put(self, mapping: dict[Any, Any], key: object, value: object) -> None:
        """Set a key of a mapping, keeping what it was."""
        self._replaced.append((mapping, key, mapping.get(key, MISSING)))
        mapping[key] = value

    def all(self) -> None:
        """Take everything back."""
        for name, length in zip(LISTS, self._lengths, strict=True):
            del getattr(self._written, name)[length:]
        for mapping, key, value in reversed(self._replaced):
            if value is MISSING:
                del mapping[key]
            else:
                mapping[key] = value


def _living(row: InstanceRow | None) -> Living | None:
    if row is None:
        return None
    return Living(decode(Snapshot, row.snapshot), row.created_at, stored=True)
