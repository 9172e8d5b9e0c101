"""Many instances at once: what an act would lead to, and the act itself."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from headway.codec import Value, as_json, decode, encode
from headway.engine.batch import Batch
from headway.engine.engine import Engine
from headway.engine.orders import HOUR, Answer, Order, own_id
from headway.engine.requests import Request, run_once, store_answer
from headway.errors import EngineError, StoreError
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import Actor, Event, Snapshot
from headway.store.queries import WorkQuery
from headway.store.rows import Attempt, InstanceRow, Key
from headway.store.unit import Changes, Command, HastenWork

AT_ONCE = 100
"""How many instances one batch changes, so that other calls do not wait long."""


class Outcome(NamedTuple):
    """The result of an operation, or of its dry run, for one instance; None when there was nothing to do."""

    instance: str
    answer: Answer | BaseException | str | None


HASTENED = "hastened"
"""The answer of an instance whose work is due now."""
SAMPLE = 10
"""How many instances of each outcome and code the report names."""

Fault = Callable[[BaseException], tuple[str, str]]
"""Describes an error: its code and a text for people."""


class ReportedOutcome(NamedTuple):
    """An outcome in a report: done, skipped, refused or failed; `code` and `detail` give the reason."""

    instance: str
    outcome: str
    code: str | None = None
    detail: str | None = None


class Summary:
    """What became of many instances: how many by outcome and code, and the first of each by name."""

    def __init__(self, fault: Fault) -> None:
        self.sample: list[ReportedOutcome] = []
        self._fault = fault
        self._counts: Counter[tuple[str, str | None]] = Counter()

    @property
    def seen(self) -> int:
        """How many there were."""
        return self._counts.total()

    def count(self, outcome: str) -> int:
        """How many have this outcome."""
        return sum(count for (each, _), count in self._counts.items() if each == outcome)

    def codes(self, outcome: str) -> dict[str, int]:
        """How many have this outcome, by code."""
        codes = {code or "": count for (each, code), count in self._counts.items() if each == outcome}
        return dict(sorted(codes.items()))

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Count some more."""
        for outcome in outcomes:
            told = self._reported(outcome)
            kind = (told.outcome, told.code)
            self._counts[kind] += 1
            if self._counts[kind] <= SAMPLE:
                self.sample.append(told)

    def _reported(self, outcome: Outcome) -> ReportedOutcome:
        instance, answer = outcome
        if answer is None:
            return ReportedOutcome(instance, "skipped")
        if isinstance(answer, Refusal):
            return ReportedOutcome(instance, "refused", answer.code, answer.message)
        if isinstance(answer, BaseException):
            return ReportedOutcome(instance, "failed", *self._fault(answer))
        return ReportedOutcome(instance, "done")


class BulkOperation(ABC):
    """Something to be done to many instances of a tenant."""

    def __init__(self, engine: Engine, tenant: str) -> None:
        self.engine, self.tenant = engine, tenant

    @abstractmethod
    async def rehearse(self, rows: Sequence[InstanceRow]) -> Sequence[Outcome]:
        """What the act would lead to now; nothing is changed."""

    async def perform(self, rows: Sequence[InstanceRow], request_id: str | None = None) -> Sequence[Outcome]:
        """Act on instances, some at a time; each has its own outcome.

        With a request id, what was done is not done again when the same is asked again within an hour.
        Raises StoreError as soon as the store fails; what was done until then stays done.
        """
        outcomes: list[Outcome] = []
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            done = await self._perform(
                some, [own_id("bulk", request_id, row.id) if request_id else None for row in some]
            )
            for outcome in done:
                if isinstance(outcome.answer, StoreError):
                    raise outcome.answer
            outcomes += done
        return outcomes

    @abstractmethod
    async def _perform(
        self, rows: Sequence[InstanceRow], request_ids: Sequence[str | None]
    ) -> Sequence[Outcome]:
        """Act on a few instances together."""


class Sending(BulkOperation):
    """Sends each instance the same event."""

    def __init__(self, engine: Engine, tenant: str, event: Event) -> None:
        """Raises InputError for an event whose data is no JSON."""
        super().__init__(engine, tenant)
        as_json(event.data)
        self._event = event

    async def rehearse(self, rows: Sequence[InstanceRow]) -> Sequence[Outcome]:
        """What each would answer, one after the other: with what those before it would have changed."""
        orders = [Order((self.tenant, row.id), self._event) for row in rows]
        return await _rehearsed(self.engine, orders)

    async def _perform(
        self, rows: Sequence[InstanceRow], request_ids: Sequence[str | None]
    ) -> Sequence[Outcome]:
        events = [((self.tenant, row.id), self._event) for row in rows]
        return _outcomes(rows, await self.engine.send_all(events, request_ids))


class Cancelling(BulkOperation):
    """Cancels each instance and its children, by the event that its chart names for it."""

    def __init__(self, engine: Engine, tenant: str, by: Actor, reason: str | None = None) -> None:
        super().__init__(engine, tenant)
        self._by, self._reason = by, reason

    async def rehearse(self, rows: Sequence[InstanceRow]) -> Sequence[Outcome]:
        """What each would answer; children are cancelled afterwards, and their answers are not known."""
        return await _rehearsed(self.engine, [self._order(row) for row in rows])

    async def _perform(
        self, rows: Sequence[InstanceRow], request_ids: Sequence[str | None]
    ) -> Sequence[Outcome]:
        calls = [
            self.engine.cancel(self.tenant, row.id, by=self._by, reason=self._reason, request_id=own)
            for row, own in zip(rows, request_ids, strict=True)
        ]
        return _outcomes(rows, await asyncio.gather(*calls, return_exceptions=True))

    def _order(self, row: InstanceRow) -> Order:
        """The order of a cancellation; one that cannot be has its error already."""
        order = Order((self.tenant, row.id), Event("", by=self._by, reason=self._reason), cascades=True)
        try:
            name = self.engine.charts.chart(row.chart, row.version).model.cancel
        except EngineError as error:
            order.error = error
            return order
        if name is None:
            order.error = EngineError(f"chart {row.chart} cannot be cancelled: it declares no cancel event")
        else:
            order.act = Event(name, by=self._by, reason=self._reason)
        return order


class Retrying(BulkOperation):
    """Lets work that waits for its next attempt be due now."""

    async def rehearse(self, rows: Sequence[InstanceRow]) -> Sequence[Outcome]:
        """Whose work waits for its time."""
        store, attempts = self.engine.store, self._attempts(rows)
        now, ids = await store.now(), tuple(work for _, work, _ in attempts)
        found = await store.work.page(WorkQuery(self.tenant, ids, leased=False, limit=len(ids) + 1))
        return self._reported(rows, {(row.tenant, row.id) for row in found if row.due > now})

    async def _perform(
        self, rows: Sequence[InstanceRow], request_ids: Sequence[str | None]
    ) -> Sequence[Outcome]:
        """With request ids, a repeat does not hasten the attempt that has followed meanwhile."""
        request = None
        if request_ids and request_ids[0] is not None:
            request = Request((self.tenant, request_ids[0]), sha256(encode(request_ids)).hexdigest())
        hastened = await hasten(self.engine, self._attempts(rows), request)
        # By the ids, because the work may be done when a repeat looks; they begin with that of the instance.
        names = {work.rsplit(":", 2)[0] for _, work in hastened}
        return _outcomes(rows, [HASTENED if row.id in names else None for row in rows])

    def _attempts(self, rows: Sequence[InstanceRow]) -> list[Attempt]:
        return [attempt for row in rows for attempt in self._attempts_of(row)]

    def _attempts_of(self, row: InstanceRow) -> list[Attempt]:
        work = decode(Snapshot, row.snapshot).work
        return [(self.tenant, each.id, each.attempt) for each in work.values()]

    def _reported(self, rows: Sequence[InstanceRow], hastened: Collection[Key]) -> Sequence[Outcome]:
        is_hastened = (any(each[:2] in hastened for each in self._attempts_of(row)) for row in rows)
        return _outcomes(rows, [HASTENED if each else None for each in is_hastened])


class Plan(Value):
    """The instances that a request with a key acts on, and where the next page begins."""

    instances: tuple[str, ...]
    next: str | None = None


async def planned(engine: Engine, request: Request, plan: Plan) -> Plan:
    """The plan of a request: this one, or that of an earlier request with the same key.

    What an act has moved may not fit its filter any more, so a repeat that looked again would find others.
    """
    return decode(Plan, await store_answer(engine.store, request, encode(plan).decode(), HOUR))


async def hasten(
    engine: Engine, attempts: Sequence[Attempt], request: Request | None = None
) -> Sequence[Key]:
    """Let work that nobody holds be due now; answers which was to be done later. Other nodes hear of it.

    A repeat of a request gets the first answer, and hastens nothing.
    """

    def script() -> Generator[Command, Any, str]:
        return encode((yield HastenWork(tuple(attempts)))).decode()

    hastened = decode(list[tuple[str, str]], await run_once(engine.store, request, script, HOUR) or "[]")
    if hastened:
        await engine.store.announce(["work"])
    return hastened


class DryRun(Batch):
    """A batch that is decided as any other, and then not written."""

    def changes(self) -> Changes:
        """None."""
        return Changes()


async def _rehearsed(engine: Engine, orders: Sequence[Order]) -> Sequence[Outcome]:
    possible = [order for order in orders if order.error is None]
    if possible:
        await engine.store.run(DryRun(engine.charts, possible))
    return [Outcome(order.key[1], order.error or order.answer) for order in orders]


def _outcomes(
    rows: Sequence[InstanceRow], answers: Sequence[Answer | BaseException | str | None]
) -> Sequence[Outcome]:
    return [Outcome(row.id, answer) for row, answer in zip(rows, answers, strict=True)]
