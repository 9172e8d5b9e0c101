"""Many calls in one transaction: a unit that decides them in order, each as if it were alone."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from headway.codec import as_json, decode, replace
from headway.engine.commit import (
    Commit,
    Living,
    Undo,
    instance_row,
    write_cascade,
    write_effects,
    write_ends,
    write_history,
    write_report,
    write_versions,
)
from headway.engine.facts import Facts, instances_key
from headway.engine.orders import (
    Answer,
    Creation,
    Order,
    Receipt,
    Upgrading,
    answer_of,
    answer_text,
    lineage,
    parent_named,
    require_roles,
)
from headway.engine.registry import Registry
from headway.engine.upgrade.instance import upgraded
from headway.errors import (
    HeadwayError,
    InstanceExistsError,
    RequestReusedError,
    UnknownInstanceError,
    VersionConflictError,
)
from headway.statechart.chart import Chart
from headway.statechart.effects import AddToCounter, ReportToParent, SpawnChild, StoreRecord
from headway.statechart.refusal import Refusal, is_hidden
from headway.statechart.snapshot import Event, Snapshot, child_changed, children_changed
from headway.statechart.step.step import Step, first_context, start, status_of, step
from headway.store.rows import Key, RequestRow
from headway.store.unit import Changes, Found, Reads

Asking = Generator[Reads, Found, None]
LONG_AGO = datetime.min.replace(tzinfo=UTC)
MOST_ROUNDS = 50
"""How many rounds of reports to parents a batch may need, since a report can itself create children."""


class NotTakenError(HeadwayError):
    """Something that follows from an order was refused, and so the order is."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class TogetherError(HeadwayError):
    """A parent cannot take what several of its children report together, or there is no end to it."""


class ChildReports(NamedTuple):
    """What the children of one parent have reported so far: how many more or fewer are in each status.

    `reports` is how often, `trace` that of the call whose report was the first.
    """

    counts: dict[str, int]
    errors: int = 0
    reports: int = 0
    trace: str | None = None

    def plus(self, report: ReportToParent) -> ChildReports:
        """With one report more."""
        counts = dict(self.counts)
        leaving, coming = report.before or "new", report.after
        counts[leaving] = counts.get(leaving, 0) - 1
        if coming is not None:
            counts[coming] = counts.get(coming, 0) + 1
        return ChildReports(counts, self.errors + report.errors, self.reports + 1, self.trace)

    def event(self) -> Event | None:
        """All of it as one event; None when nothing has changed in the end."""
        counts = {status: by for status, by in self.counts.items() if by}
        return children_changed(counts, self.errors) if counts or self.errors else None


class Batch:
    """A unit of many orders. A bad order gets its error and leaves no trace; the others are not affected."""

    def __init__(self, registry: Registry, orders: Sequence[Order]) -> None:
        self.registry = registry
        self.orders = orders

    def begin(self) -> Reads:
        """Forget everything; ask for the instances and request ids of all orders."""
        self.now = LONG_AGO
        self.trace: str | None = None
        self.living: dict[Key, Living | None] = {}
        self.touched: dict[Key, None] = {}
        self.upgraded: dict[Key, None] = {}
        self.requests: dict[Key, RequestRow | None] = {}
        self.counters: dict[Key, int] = {}
        self.records: dict[tuple[str, str, str], Any] = {}
        self.gathered: dict[Key, ChildReports] = {}
        self.stems: set[Key] = set()
        self.gathers = True
        self.undos: list[Undo] = []
        self.written = Changes()
        self._script = self._decide_all()
        return next(self._script)

    def take(self, found: Found) -> Reads | None:
        """Continue with what was found; None when every order is decided."""
        try:
            return self._script.send(found)
        except StopIteration:
            return None

    def changes(self) -> Changes:
        """All rows of the batch; an instance that several orders changed is written once."""
        for key in self.touched:
            living = self.living[key]
            assert living is not None
            row = instance_row(key, living, self.now)
            (self.written.updated if living.stored else self.written.created).append(row)
        if self.upgraded:
            write_versions(self.written, {key: self._snapshot(key) for key in self.upgraded})
        self.written.refused = [*self._refused()]
        return self.written

    def _refused(self) -> Iterator[tuple[str, str, Event, str]]:
        for order in self.orders:
            if isinstance(order.answer, Refusal) and isinstance(order.act, Event) and not order.replayed:
                living = self.living[order.key]
                assert living is not None
                yield order.key[0], living.snapshot.chart, order.act, order.answer.code

    def _decide_all(self) -> Asking:
        keys = {order.key for order in self.orders}
        requests = {(order.key[0], order.request_id) for order in self.orders if order.request_id}
        parents = {(key[0], parent) for key in keys if (parent := parent_named(key[1])) is not None}
        yield from self._load(instances=keys, requests=requests, soon=parents - keys)
        try:
            yield from self._decide_each()
            yield from self._roll_up(self._roll_up_alone)
        except TogetherError:
            # Whose report it is that the parent cannot take shows when each comes by itself.
            for undo in reversed(self.undos):
                undo.all()
            self.gathers = False
            yield from self._decide_each()

    def _decide_each(self) -> Asking:
        for order in self.orders:
            if order.key in self.stems:
                yield from self._roll_up(self._roll_up_alone, order.key)
            self._begin_part(order.trace)
            try:
                yield from self._decide(order)
            except TogetherError:
                raise
            except NotTakenError as error:
                self.undo.all()
                self._answer(order, error.refusal)
            except Exception as error:  # noqa: BLE001 - no error of an order may affect the others
                self.undo.all()
                if RecursionError in {type(error), type(error.__cause__)}:
                    self._answer(order, _endless(order, self.living.get(order.key)))
                else:
                    order.answer, order.error = None, error

    def _begin_part(self, trace: str | None) -> None:
        """What follows can be undone by itself."""
        self.undo, self.trace = Undo(self.written), trace
        self.undos.append(self.undo)

    def _load(
        self,
        *,
        instances: Iterable[Key] = (),
        requests: Iterable[Key] = (),
        counters: Iterable[Key] = (),
        records: Iterable[tuple[str, str, str]] = (),
        soon: Iterable[Key] = (),
    ) -> Asking:
        """Ask for what is not known yet."""
        reads = Reads(
            instances={key for key in instances if key not in self.living},
            requests={key for key in requests if key not in self.requests},
            counters={key for key in counters if key not in self.counters},
            records={key for key in records if key not in self.records},
            soon={*soon},
        )
        if not (reads.instances or reads.requests or reads.counters or reads.records):
            return
        found = yield reads
        self.now = max(self.now, found.now)
        for key in reads.instances:
            stored = found.instances.get(key)
            self.living[key] = None if stored is None else Living.stored_as(stored)
        for key in reads.requests:
            self.requests[key] = found.requests.get(key)
        for key in reads.counters:
            self.counters[key] = found.counters.get(key, 0)
        for record in reads.records:
            row = found.records.get(record)
            self.records[record] = None if row is None else decode(object, row.data)

    def _decide(self, order: Order) -> Asking:
        order.answer, order.error, order.replayed = None, None, False
        if order.request_id is not None and self._replay(order, order.request_id):
            return
        if isinstance(order.act, Creation):
            answer = yield from self._create(order.key, order.act)
        elif isinstance(order.act, Upgrading):
            answer = yield from self._upgrade(order, order.act)
        else:
            answer = yield from self._send(order, order.act)
        self._answer(order, answer)

    def _answer(self, order: Order, answer: Answer) -> None:
        order.answer = answer
        if order.request_id is not None and (order.keeps_refusals or isinstance(answer, Receipt)):
            self._remember(order, answer)

    def _replay(self, order: Order, request_id: str) -> bool:
        """Whether the request id has an answer already; the order gets it."""
        known = self.requests.get((order.key[0], request_id))
        if known is None or known.expires_at <= self.now:
            return False
        if known.body != order.digest():
            raise RequestReusedError(f"request id {request_id} was used for another call")
        order.answer = answer_of(known.answer)
        order.replayed = True
        return True

    def _remember(self, order: Order, answer: Answer) -> None:
        key = (order.key[0], order.request_id or "")
        row = RequestRow(
            tenant=key[0],
            key=key[1],
            body=order.digest(),
            answer=answer_text(answer),
            expires_at=self.now + order.lasts,
        )
        self.undo.put(self.requests, key, row)
        self.written.requests.append(row)

    def _create(self, key: Key, creation: Creation) -> Generator[Reads, Found, Answer]:
        if self.living.get(key) is not None:
            raise InstanceExistsError(f"an instance {key[1]} already exists")
        refusal = yield from self._begin(key, creation)
        return (yield from self._receipt(key)) if refusal is None else refusal

    def _begin(self, key: Key, creation: Creation) -> Generator[Reads, Found, Refusal | None]:
        """Begin a life, unless the chart refuses."""
        chart = self.registry.newest(creation.chart)
        creator, facts = self._creator(key, creation), {}
        if chart.model.facts:
            context = first_context(chart, creation.context)
            blank = Snapshot(chart.name, chart.version, key[1], context=context, creator=creator)
            facts = yield from self._facts(chart, key[0], blank)
        outcome = start(
            chart,
            key[1],
            now=self.now,
            context=creation.context,
            by=creation.by,
            facts=facts,
            seed=creation.seed,
            parent=creation.parent,
            depth=creation.depth,
            creator=creator,
        )
        if isinstance(outcome, Refusal):
            return outcome
        status = status_of(chart, outcome.snapshot.states) or ""
        self.undo.put(self.living, key, Living(outcome.snapshot, status, self.now))
        self._count_owned(key[0], None, outcome.snapshot)
        yield from self._apply(key, None, outcome)
        return None

    def _creator(self, key: Key, creation: Creation) -> str:
        """Who creates an instance: of a child, who created its parent."""
        parent = None if creation.parent is None else self._snapshot((key[0], creation.parent)).creator
        return parent or creation.by.id

    def _expected(self, order: Order) -> Living:
        """The instance an order is for, where the order expects it."""
        living = self.living.get(order.key)
        if living is None:
            raise _unknown(order.key)
        seq, act = living.snapshot.seq, order.act
        if order.expected_seq is not None and order.expected_seq != seq:
            if isinstance(act, Event) and is_hidden(self._chart(living.snapshot), living.snapshot, act.by):
                raise _unknown(order.key)
            message = f"{order.key[1]} is at seq {seq}, not at {order.expected_seq}"
            raise VersionConflictError(message, seq)
        return living

    def _upgrade(self, order: Order, act: Upgrading) -> Generator[Reads, Found, Answer]:
        """An instance becomes one of another version, or is brought back to the one before."""
        living = self._expected(order)
        before = living.snapshot
        now, then = (self.registry.known(before.chart, each) for each in (before.version, act.to))
        facts: dict[str, Any] = {}
        if act.record is None:
            facts = yield from self._facts(then, order.key[0], before)
        done = upgraded(living, act, now, then, at=self.now, facts=facts)
        after = living.moved(done.snapshot, status_of(then, done.snapshot.states) or "")
        self.undo.put(self.living, order.key, after)
        self.undo.put(self.upgraded, order.key, None)
        yield from self._apply(order.key, before, done)
        self._count_owned(order.key[0], before, done.snapshot)
        return (yield from self._receipt(order.key))

    def _send(self, order: Order, event: Event) -> Generator[Reads, Found, Answer]:
        living = self._expected(order)
        outcome = yield from self._step(order.key, living, event)
        if isinstance(outcome, Refusal):
            if outcome.code == "owner":  # that it exists is nobody else's business
                raise _unknown(order.key)
            return outcome
        if order.cascades:
            write_cascade(self._commit(order.key, outcome.snapshot), outcome.snapshot, event.by)
        return (yield from self._receipt(order.key))

    def _step(self, key: Key, living: Living, event: Event) -> Generator[Reads, Found, Step | Refusal]:
        """Decide one event for one instance, with what follows from it for others."""
        before = living.snapshot
        chart = self._chart(before)
        if chart.people:
            require_roles(event.by)
        if chart.model.facts:
            facts = yield from self._facts(chart, key[0], before)
            outcome = step(chart, before, event, self.now, facts=facts)
        else:
            outcome = step(chart, before, event, self.now)
        if isinstance(outcome, Step):
            after = living.moved(outcome.snapshot, status_of(chart, outcome.snapshot.states) or "")
            self.undo.put(self.living, key, after)
            yield from self._apply(key, before, outcome)
            if outcome.snapshot.ended:
                self._count_owned(key[0], before, outcome.snapshot)
        return outcome

    def _count_owned(self, tenant: str, before: Snapshot | None, after: Snapshot) -> None:
        """Keep the number of an owner's living instances when one begins, ends, or gets an owner."""
        was = None if before is None or before.ended else before.owner
        now = None if after.ended else after.owner
        if was == now:
            return
        for owner, by in ((was, -1), (now, 1)):
            if owner is not None:
                self._count((tenant, instances_key(after.chart, owner)), by)

    def _facts(
        self, chart: Chart, tenant: str, snapshot: Snapshot
    ) -> Generator[Reads, Found, dict[str, Any]]:
        facts = Facts(chart, tenant, snapshot, self.registry.given)
        yield from self._load(counters=facts.counters(), records=facts.records())
        added = self.written.counters
        counters = {key: self.counters.get(key, 0) + added.get(key, 0) for key in facts.counters()}
        return facts.values(counters, self.records)

    def _apply(self, key: Key, before: Snapshot | None, done: Step) -> Asking:
        self.undo.put(self.touched, key, None)
        commit = self._commit(key, done.snapshot)
        living = self.living[key]
        assert living is not None
        write_history(commit, living, done)
        if before is not None:
            write_ends(commit, before, done.snapshot)
        write_effects(commit, done.effects)
        spawned: list[SpawnChild] = []
        reports: list[ReportToParent] = []
        for effect in done.effects:
            if isinstance(effect, ReportToParent):
                reports.append(effect)
            elif isinstance(effect, SpawnChild):
                spawned.append(effect)
            elif isinstance(effect, AddToCounter):
                self._count((key[0], effect.key), effect.by)
            elif isinstance(effect, StoreRecord):
                self.undo.put(self.records, (key[0], effect.kind, effect.key), as_json(effect.data))
        # The parent hears of this step before it hears of what this step's children do to the instance.
        for report in reports:
            yield from self._report(key, report)
        for child in spawned:
            yield from self._spawn(key, child)

    def _commit(self, key: Key, after: Snapshot) -> Commit:
        return Commit(self.written, key, after, now=self.now, trace=self.trace)

    def _count(self, counter: Key, by: int) -> None:
        """Add to a counter, for the store and for the guards of the orders that follow."""
        totals = self.written.counters
        self.undo.put(totals, counter, totals.get(counter, 0) + by)

    def _report(self, child: Key, report: ReportToParent) -> Asking:
        """A child's change reaches its parent in the same transaction, under the parent's lock."""
        parent = (child[0], report.parent)
        so_far = self.gathered.get(parent)
        if so_far is not None:
            self.undo.put(self.gathered, parent, so_far.plus(report))
            return
        if parent not in self.living:
            yield from self._load(instances=[parent])
        living = self.living[parent]
        if living is None or living.snapshot.ended:
            return
        if child not in self.upgraded and not self.registry.has(
            living.snapshot.chart, living.snapshot.version
        ):
            # A node that knows the parent's version tells it. An upgrade must know whether it takes it.
            write_report(self._commit(child, self._snapshot(child)), report)
            return
        if self.gathers and self._chart(living.snapshot).model.children == "together":
            self.undo.put(self.gathered, parent, ChildReports({}, trace=self.trace).plus(report))
            self.stems.update(lineage(parent))
            return
        event = child_changed(child[1], report.before, report.after, report.errors)
        yield from self._tell(parent, living, event)

    def _roll_up(self, hear: Callable[[Key], Asking], above: Key | None = None) -> Asking:
        """Report what was gathered to parents, deepest first; to all, or to an instance and those below it.

        Raises TogetherError when it does not end; then orders are run one by one to find the cause.
        """
        for _ in range(MOST_ROUNDS):
            parents = [parent for parent in self.gathered if above is None or above in lineage(parent)]
            if not parents:
                return
            for parent in sorted(parents, key=self._depth, reverse=True):
                yield from hear(parent)
        raise TogetherError("children report to their parent without end")

    def _depth(self, key: Key) -> int:
        living = self.living[key]
        return 0 if living is None else living.snapshot.depth

    def _snapshot(self, key: Key) -> Snapshot:
        living = self.living[key]
        assert living is not None
        return living.snapshot

    def _roll_up_alone(self, parent: Key) -> Asking:
        """A parent hears of what earlier orders have led to: that is no matter of the one that follows."""
        self._begin_part(self.gathered[parent].trace)
        try:
            yield from self._roll_up_one(parent)
        except Exception as error:
            raise TogetherError(str(error)) from error

    def _roll_up_one(self, parent: Key) -> Asking:
        """A parent hears of all that its children have reported, as of one change."""
        heard: ChildReports = self.undo.take(self.gathered, parent)
        event, living = heard.event(), self.living[parent]
        if event is None or living is None or living.snapshot.ended:
            return
        try:
            yield from self._tell(parent, living, event)
        except NotTakenError as error:
            if heard.reports > 1:
                raise TogetherError(str(error)) from error
            raise

    def _tell(self, parent: Key, living: Living, event: Event) -> Asking:
        outcome = yield from self._step(parent, living, event)
        if isinstance(outcome, Refusal):
            # Counts that have lost one change are wrong for ever; an event that is refused can come again.
            raise NotTakenError(
                replace(outcome, message=f"the parent {parent[1]} refused it: {outcome.message}")
            )

    def _spawn(self, parent: Key, spawn: SpawnChild) -> Asking:
        """A child is created in the same transaction; its first status is its first report.

        Also when the parent has ended: by the step that spawns the child, or by a child before it.
        """
        creation = Creation(chart=spawn.chart, context=spawn.context, parent=parent[1], depth=spawn.depth)
        child = (parent[0], spawn.child)
        if self.living.get(child) is not None:
            raise InstanceExistsError(f"an instance {spawn.child} already exists")
        refusal = yield from self._begin(child, creation)
        if refusal is not None:
            raise NotTakenError(
                replace(refusal, message=f"the child {spawn.child} cannot start: {refusal.message}")
            )

    def _receipt(self, key: Key) -> Generator[Reads, Found, Receipt]:
        """Where an instance is, also after what those below it have reported."""
        if key in self.stems:
            yield from self._roll_up(self._roll_up_one, key)
        living = self.living[key]
        assert living is not None
        return living.receipt()

    def _chart(self, snapshot: Snapshot) -> Chart:
        return self.registry.chart(snapshot.chart, snapshot.version)


def _endless(order: Order, living: Living | None) -> Refusal:
    """The refusal of a call that parents and children would answer without end, each by another report."""
    message = "parents and children would report to each other without end"
    states = () if living is None else living.snapshot.states
    return Refusal(code="runaway", message=message, event=getattr(order.act, "name", "start"), states=states)


def _unknown(key: Key) -> UnknownInstanceError:
    return UnknownInstanceError(f"there is no instance {key[1]}")
