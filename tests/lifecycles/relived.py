"""Lives that were stepped without an engine, lived again on a node: what the node stores is compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from itertools import count, groupby
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from headway.codec import as_json, decode, encode
from headway.engine.audit.audit import Audit
from headway.engine.orders import Receipt
from headway.node import Node
from headway.statechart import effects
from headway.statechart.chart import Chart, Charted, chart_of
from headway.statechart.effects import Effect
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Event, Row, Snapshot
from headway.statechart.step.step import Step, start, step
from headway.store.queries import (
    AskQuery,
    InstanceQuery,
    MessageQuery,
    TimerQuery,
    WorkQuery,
)
from headway.store.rows import Cursor, HistoryRow, MessageRow
from headway.testing.clock import BEGINNING
from tests.store.contract.acts import found

CREATED_WITH = ("context", "by", "seed")
MANY = 500


class Call(NamedTuple):
    """An event as it was sent, and what it got."""

    event: Event
    now: datetime
    facts: Mapping[str, Any]
    outcome: Step | Refusal


class Life:
    """How an instance began, and what it was sent."""

    def __init__(self, chart: Chart, begun: Step, now: datetime, arguments: Mapping[str, Any]) -> None:
        self.chart, self.begun, self.now, self.arguments = chart, begun, now, arguments
        self.calls: list[Call] = []

    @property
    def name(self) -> str:
        """The instance's name."""
        return self.begun.snapshot.instance

    @property
    def steps(self) -> list[Step]:
        """What it did."""
        return [self.begun, *(call.outcome for call in self.calls if isinstance(call.outcome, Step))]

    @property
    def snapshot(self) -> Snapshot:
        """Where it stands in the end."""
        return self.steps[-1].snapshot

    def effects(self, *kinds: type[Effect]) -> list[Any]:
        """What it asked the world to do, of some kinds."""
        return [each for done in self.steps for each in done.effects if isinstance(each, kinds)]


class Recorder:
    """Notes the lives that go through the functions `start` and `step` of modules."""

    def __init__(self) -> None:
        self.lives: list[Life] = []
        self._by_snapshot: dict[int, Life] = {}

    def start(self, chart: Charted, *args: Any, **arguments: Any) -> Step | Refusal:
        """Begin a life, and note it."""
        outcome = start(chart, *args, **arguments)
        if isinstance(outcome, Step):
            life = Life(chart_of(chart), outcome, arguments["now"], arguments)
            self.lives.append(life)
            self._by_snapshot[id(outcome.snapshot)] = life
        return outcome

    def step(
        self, chart: Charted, snapshot: Snapshot, event: Event, *args: Any, **given: Any
    ) -> Step | Refusal:
        """Take a step, and note it."""
        outcome = step(chart, snapshot, event, *args, **given)
        life = self._by_snapshot.get(id(snapshot))
        # A test may step from the same place twice: only one of the two is the life that goes on.
        if life is not None and life.snapshot is snapshot:
            now = given["now"] if "now" in given else args[0]
            life.calls.append(Call(event, now, dict(given.get("facts") or {}), outcome))
            if isinstance(outcome, Step):
                self._by_snapshot[id(outcome.snapshot)] = life
        return outcome


@contextmanager
def recorded(*modules: ModuleType) -> Iterator[Recorder]:
    """Note the lives that these modules begin and step."""
    recorder = Recorder()
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            patch.setattr(module, "start", recorder.start)
            patch.setattr(module, "step", recorder.step)
        yield recorder


class SetClock:
    """A clock that is set to any time, so that one life after another begins at the same time."""

    def __init__(self) -> None:
        self.at = BEGINNING

    def now(self) -> datetime:
        """The time it was last set to."""
        return self.at


class Stage:
    """An engine on which lives are lived again, each in a tenant of its own, with the facts of the first.

    With `at_once` all that came at the same time is sent in one batch, which is one transaction.
    """

    def __init__(self, database: str, *charts: Charted, at_once: bool = False) -> None:
        self.clock, self.at_once = SetClock(), at_once
        names = {fact.name for chart in charts for fact in chart_of(chart).model.facts}
        given = {name: partial(self._fact, name) for name in names}
        self.node = Node(database, charts, clock=self.clock, facts=given)
        self.engine = self.node.engine
        self._facts: Mapping[str, Any] = {}
        self._tenants = count()
        self._read = Cursor()

    def _fact(self, name: str, *_: object) -> Any:
        return self._facts.get(name)

    async def live(self, life: Life) -> None:
        """Live a life again: each answer is the same, and so is what stands in the store in the end."""
        tenant = f"tenant{next(self._tenants)}"
        self._set(life.now, life.arguments.get("facts"))
        arguments = {key: life.arguments[key] for key in CREATED_WITH if key in life.arguments}
        begun = await self.engine.create(tenant, life.name, life.chart.name, **arguments)
        assert isinstance(begun, Receipt), begun
        for _, calls in groupby(life.calls, key=self._batch):
            await self._send(tenant, life, [*calls])
        await self._compare(tenant, life)

    def _batch(self, call: Call) -> object:
        return (call.now, call.facts) if self.at_once else id(call)

    async def _send(self, tenant: str, life: Life, calls: Sequence[Call]) -> None:
        self._set(calls[0].now, calls[0].facts)
        answers = await self.engine.send_all([((tenant, life.name), call.event) for call in calls])
        for call, answer in zip(calls, answers, strict=True):
            if isinstance(call.outcome, Refusal):
                assert answer == call.outcome
            else:
                assert isinstance(answer, Receipt), answer
                assert answer.states == call.outcome.snapshot.states

    def _set(self, now: datetime, facts: Mapping[str, Any] | None) -> None:
        self.clock.at, self._facts = now, facts or {}

    async def _compare(self, tenant: str, life: Life) -> None:
        """What stands in the store is what the steps asked for, and nothing else."""
        store, key = self.engine.store, (tenant, life.name)
        row = await self.engine.row(*key)
        assert row.snapshot == encode(life.snapshot).decode()
        lines = await store.history.page(key, limit=MANY)
        assert [_line(line) for line in lines] == [_row(row) for done in life.steps for row in done.history]
        timers = await store.timers.page(TimerQuery(tenant, limit=MANY))
        own = [each for each in timers if each.instance == life.name]
        assert {each.id: (each.event, each.due) for each in own} == {
            id_: (timer.event, timer.due) for id_, timer in life.snapshot.timers.items()
        }
        work = [
            each
            for each in await store.work.page(WorkQuery(tenant, limit=MANY))
            if each.instance == life.name
        ]
        assert {each.state: (each.id, each.attempt) for each in work} == {
            state: (each.id, each.attempt) for state, each in life.snapshot.work.items()
        }
        asks = await store.asks.page(AskQuery(tenant, instance=life.name, limit=MANY))
        assert {each.state: (each.id, each.roles, each.claimed_by, each.delegated_to) for each in asks} == {
            state: (each.id, each.roles, each.claimed_by, each.delegated_to)
            for state, each in life.snapshot.asks.items()
        }
        children = await self.engine.list(InstanceQuery(tenant, parent=life.name, limit=MANY))
        spawned = life.effects(effects.SpawnChild)
        assert {each.id: each.chart for each in children} == {each.child: each.chart for each in spawned}
        await self._compare_shared(tenant, life)
        assert [str(flaw) async for flaw in Audit(store).instance(key)] == []

    async def _messages(self) -> list[MessageRow]:
        """What was sent since the last life, each once."""
        rows: list[MessageRow] = []
        complete = False
        while not complete:
            page = await self.engine.store.messages.page(MessageQuery(after=self._read, limit=MANY))
            rows += page.messages
            self._read, complete = page.cursor, page.complete
        return rows

    async def _compare_shared(self, tenant: str, life: Life) -> None:
        """The outbox, records and counters."""
        store = self.engine.store
        sent = [_message(each) for each in await self._messages() if each.instance == life.name]
        assert sent == [_sent(each) for each in life.effects(*SENT)]
        records = {(tenant, each.kind, each.key): each.data for each in life.effects(effects.StoreRecord)}
        rows = (await found(store, records={*records})).records
        assert {key: decode(object, row.data) for key, row in rows.items()} == {
            key: as_json(data) for key, data in records.items()
        }
        counters: Counter[tuple[str, str]] = Counter()
        for each in life.effects(effects.AddToCounter):
            counters[tenant, each.key] += each.by
        kept = (await found(store, counters={*counters})).counters
        assert {key: kept.get(key, 0) for key in counters} == dict(counters)


SENT = (effects.PublishMessage, effects.RemindAsk, effects.EscalateAsk, effects.WriteLog, effects.Deliver)


def _sent(effect: Any) -> tuple[object, ...]:
    """The message that an effect leads to."""
    if isinstance(effect, effects.RemindAsk):
        data = {"ask": effect.ask, "roles": effect.roles, "delegated_to": effect.delegated_to}
        return ("live", "ask.reminded", effect.id, as_json(data))
    if isinstance(effect, effects.EscalateAsk):
        return ("live", "ask.escalated", effect.id, as_json({"ask": effect.ask, "roles": effect.roles}))
    if isinstance(effect, effects.WriteLog):
        return ("log", effect.label, effect.id, as_json(effect.data))
    if isinstance(effect, effects.Deliver):
        return ("deliver", effect.event, effect.id, as_json({"to": effect.to, "data": effect.data}))
    return (effect.kind, effect.name, effect.id, as_json(effect.data))


def _message(row: MessageRow) -> tuple[object, ...]:
    return (row.kind, row.name, row.id, None if row.data is None else decode(object, row.data))


def _row(row: Row) -> tuple[object, ...]:
    what = ("+".join(row.before), row.event, row.transition, "+".join(row.after))
    return (row.seq, row.index, *what, row.actor, row.at, row.reason, row.attempt, as_json(row.data))


def _line(line: HistoryRow) -> tuple[object, ...]:
    data = None if line.data is None else decode(object, line.data)
    what = (line.before, line.event, line.transition, line.after)
    return (line.seq, line.row, *what, line.actor, line.at, line.reason, line.attempt, data)
