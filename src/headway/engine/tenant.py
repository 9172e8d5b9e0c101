"""`Tenant`: the calls of the engine for one tenant, and waiting for a state."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from headway.engine.asks import CLAIM_LASTS, LINK_LASTS, Asks
from headway.engine.engine import Engine
from headway.engine.orders import Answer, Receipt
from headway.engine.why import Explanation
from headway.errors import InputError
from headway.statechart.chart import Charted, chart_of
from headway.statechart.snapshot import SYSTEM, Actor, Event, Snapshot
from headway.store.queries import InstanceQuery
from headway.store.rows import AskRow, HistoryRow, InstanceRow, Key
from headway.store.unit import Changes

LOOKS_EVERY = 1.0
"""Seconds until a commit of another process is seen, at most; a commit of this process is seen at once."""


async def until(engine: Engine, key: Key, states: tuple[str, ...] = ()) -> Snapshot:
    """Wait until an instance is in one of the states, or has ended; raises UnknownInstanceError.

    Raises InputError for a state that the instance's chart does not have.
    """
    moved = asyncio.Event()

    def look(changes: Changes) -> None:
        if any((row.tenant, row.id) == key for row in changes.updated):
            moved.set()

    engine.watch(look)
    try:
        while True:
            moved.clear()
            snapshot = await engine.get(*key)
            if snapshot.ended or _is_in(engine, snapshot, states):
                return snapshot
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOKS_EVERY):
                    await moved.wait()
    finally:
        engine.unwatch(look)


def _is_in(engine: Engine, snapshot: Snapshot, states: tuple[str, ...]) -> bool:
    chart = engine.charts.chart(snapshot.chart, snapshot.version)
    if unknown := [state for state in states if state not in chart.nodes]:
        raise InputError(f"chart {chart.name} has no state {', '.join(map(str, unknown))}")
    return any(node.id in states for node in chart.configuration(snapshot.states))


class Tenant:
    """Creates, moves and explains the instances of one tenant, and nobody else's.

    A call that the chart refuses raises RefusedError, and changes nothing; `Engine` and `Asks` return the
    refusal instead, and so does `send_many` for each event.
    """

    def __init__(self, engine: Engine, asks: Asks, name: str) -> None:
        self._engine, self._asks, self.name = engine, asks, name

    async def create(
        self,
        chart: str | Charted,
        instance: str | None = None,
        context: Mapping[str, Any] | None = None,
        *,
        by: Actor = SYSTEM,
        request_id: str | None = None,
        seed: int = 0,
        unnamed: bool = False,
    ) -> Receipt:
        """Begin a life; without an id it gets one, the same for the same request id."""
        answer = await self._engine.create(
            self.name,
            _new_name(chart) if instance is None else instance,
            chart,
            context=context,
            by=by,
            seed=seed,
            request_id=request_id,
            unnamed=unnamed or instance is None,
        )
        return answer.unwrap()

    async def send(
        self, instance: str, event: Event, *, request_id: str | None = None, expected_seq: int | None = None
    ) -> Receipt:
        """Send an event, as `Engine.send` does."""
        answer = await self._engine.send(
            self.name, instance, event, request_id=request_id, expected_seq=expected_seq
        )
        return answer.unwrap()

    async def send_many(
        self, events: Sequence[tuple[str, Event]], *, request_id: str | None = None
    ) -> Sequence[Answer | BaseException]:
        """Send events to many instances, as `Engine.send_many` does."""
        return await self._engine.send_many(self.name, events, request_id=request_id)

    async def cancel(
        self,
        instance: str,
        *,
        by: Actor = SYSTEM,
        reason: str | None = None,
        request_id: str | None = None,
        expected_seq: int | None = None,
        children: bool = True,
    ) -> Receipt:
        """Cancel an instance and its children, as `Engine.cancel` does."""
        answer = await self._engine.cancel(
            self.name,
            instance,
            by=by,
            reason=reason,
            request_id=request_id,
            expected_seq=expected_seq,
            children=children,
        )
        return answer.unwrap()

    async def get(self, instance: str) -> Snapshot:
        """Where an instance stands; raises UnknownInstanceError."""
        return await self._engine.get(self.name, instance)

    async def until(self, instance: str, *states: str) -> Snapshot:
        """Wait until an instance is in one of the states, or has ended; use `asyncio.timeout` for a limit.

        Raises UnknownInstanceError, and InputError for a state that its chart does not have.
        """
        return await until(self._engine, (self.name, instance), states)

    async def list(
        self,
        *,
        chart: str | Charted | None = None,
        status: str | None = None,
        parent: str | None = None,
        owner: str | None = None,
        ended: bool | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Sequence[InstanceRow]:
        """A page of instances in the order of their creation, from after the one named on."""
        name = chart if chart is None or isinstance(chart, str) else chart_of(chart).name
        query = InstanceQuery(
            self.name, name, status, parent, owner=owner, ended=ended, after=after, limit=limit
        )
        return await self._engine.list(query)

    async def history(self, instance: str, *, after: int = 0, limit: int = 100) -> Sequence[HistoryRow]:
        """A page of an instance's history, from after a position on."""
        return await self._engine.history(self.name, instance, after=after, limit=limit)

    async def why(self, instance: str) -> Explanation:
        """What an instance waits for, who or what could move it, and what stands in the way."""
        return await self._engine.why(self.name, instance)

    async def inbox(self, actor: Actor, *, after: str | None = None, limit: int = 100) -> Sequence[AskRow]:
        """The open asks that an actor may answer, each with the answers they may give; the oldest first."""
        return await self._asks.inbox(self.name, actor, after=after, limit=limit)

    async def ask(self, ask: str) -> AskRow:
        """One ask, open or closed; raises UnknownAskError."""
        return await self._asks.get(self.name, ask)

    async def claim(self, ask: str, *, by: Actor, lasts: str = CLAIM_LASTS) -> Receipt:
        """Take an ask on: nobody else can answer it until the claim is released or has run out."""
        return (await self._asks.claim(self.name, ask, by=by, lasts=lasts)).unwrap()

    async def release(self, ask: str, *, by: Actor) -> Receipt:
        """Give a claim or a delegation back."""
        return (await self._asks.release(self.name, ask, by=by)).unwrap()

    async def delegate(self, ask: str, *, to: str, by: Actor) -> Receipt:
        """Pass an ask on to a person, who alone may answer it then."""
        return (await self._asks.delegate(self.name, ask, to=to, by=by)).unwrap()

    async def answer(
        self,
        ask: str,
        answer: str = "answer",
        data: Any = None,
        *,
        by: Actor,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Receipt:
        """Answer an ask by one of its answers."""
        answered = await self._asks.answer(
            self.name, ask, answer, data, by=by, reason=reason, request_id=request_id
        )
        return answered.unwrap()

    async def link(self, ask: str, *, for_: Actor, lasts: str = LINK_LASTS) -> str:
        """A signed token by which one person answers one ask once, without a login."""
        return await self._asks.link(self.name, ask, for_=for_, lasts=lasts)


def _new_name(chart: str | Charted) -> str:
    name = chart if isinstance(chart, str) else chart_of(chart).name
    return f"{name.lower()}_{secrets.token_hex(8)}"
