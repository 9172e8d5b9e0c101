"""Clients: create instances, send them legal and illegal events, and repeat a call until it is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

from headway.codec import fingerprint, replace
from headway.engine.asks import Inbox
from headway.engine.engine import Engine
from headway.engine.orders import Answer
from headway.errors import EngineError, StoreError, UnknownChartError
from headway.statechart.chart import Chart
from headway.statechart.explore.events import Happenings, People
from headway.statechart.explore.facts import RuleFacts
from headway.statechart.people import is_person
from headway.statechart.snapshot import SYSTEM, Actor, Event, Snapshot, claim_ask, delegate_ask, release_ask
from headway.store.rows import HistoryRow, Key
from headway.testing.simulate.ownership import Ownership
from headway.testing.simulate.witness import Trace

WORDS = ("a", "blue", "x1", "Łódź", "2026-01-01")
FORMATS = {
    "date-time": "2026-01-01T09:00:00Z",
    "date": "2026-01-01",
    "uuid": "12345678-1234-5678-1234-567812345678",
    "uri": "https://example.org/",
    "email": "ann@example.org",
}
MOST_DEPTH = 6
TENANTS = ("acme", "globex")
USERS = ("ann", "bob")
PATIENCE = 40
MOST_KNOWN = 10_000
Make = Callable[[Random], Any]
Serve = Callable[[Callable[[Engine], Any]], Any]


def sample(schema: dict[str, Any], random: Random) -> Any:
    """A random value that a schema allows, or nearly allows."""
    return _sample(schema, random, schema.get("$defs", {}), 0)


def _sample(schema: dict[str, Any], random: Random, defs: dict[str, Any], depth: int) -> Any:
    if "$ref" in schema:
        return _sample(defs.get(schema["$ref"].rpartition("/")[2], {}), random, defs, depth + 1)
    for choice in ("anyOf", "oneOf", "allOf"):
        if schema.get(choice):
            return _sample(random.choice(schema[choice]), random, defs, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return random.choice(schema["enum"])
    make = MAKERS.get(schema.get("type", "object"))
    return None if make is None or depth > MOST_DEPTH else make(schema, random, defs, depth)


def _object(schema: dict[str, Any], random: Random, defs: dict[str, Any], depth: int) -> Any:
    required = schema.get("required", ())
    return {
        name: _sample(inner, random, defs, depth + 1)
        for name, inner in schema.get("properties", {}).items()
        if name in required or random.random() < 0.5  # noqa: PLR2004 - half of what may be left out
    }


def _array(schema: dict[str, Any], random: Random, defs: dict[str, Any], depth: int) -> Any:
    if "prefixItems" in schema:
        return [_sample(inner, random, defs, depth + 1) for inner in schema["prefixItems"]]
    number = random.randint(schema.get("minItems", 0), schema.get("minItems", 0) + 2)
    return [_sample(schema.get("items", {}), random, defs, depth + 1) for _ in range(number)]


def _number(schema: dict[str, Any], random: Random, _defs: dict[str, Any], _depth: int) -> Any:
    low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    high = max(low, schema.get("maximum", schema.get("exclusiveMaximum", low + 11) - 1))
    return random.randint(int(low), int(high))


def _string(schema: dict[str, Any], random: Random, _defs: dict[str, Any], _depth: int) -> Any:
    if schema.get("format") in FORMATS:
        return FORMATS[schema["format"]]
    word = random.choice(WORDS)
    return word.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]


MAKERS: dict[str, Callable[[dict[str, Any], Random, dict[str, Any], int], Any]] = {
    "object": _object,
    "array": _array,
    "integer": _number,
    "number": _number,
    "string": _string,
    "boolean": lambda _schema, random, _defs, _depth: random.random() < 0.5,  # noqa: PLR2004 - a coin
}


class ClientChoices:
    """The calls that a client can make for instances of a chart."""

    def __init__(self, chart: Chart, payloads: Mapping[str, Make], context: Make | None) -> None:
        self.chart = chart
        self._payloads, self._context = payloads, context
        self._people = People(chart)
        self._happenings = Happenings(chart, self._people, RuleFacts(chart))
        self._events = sorted(
            {name for row in chart.model.transitions for name in row.events if "." not in name}
        )
        roles = {role for row in chart.model.transitions for role in row.by}
        self._roles = sorted(roles) or [""]
        self._possible: dict[tuple[Any, ...], list[Event]] = {}

    def context(self, random: Random) -> Any:
        """The context of a new instance."""
        if self._context is not None:
            return self._context(random)
        kind = self.chart.context_type
        return {"user": random.choice(USERS)} if kind is None else sample(kind.schema(), random)

    def event(self, snapshot: Snapshot, random: Random, now: Any) -> Event | None:
        """An event that may be accepted or refused."""
        if snapshot.asks and random.random() < 0.2:  # noqa: PLR2004 - one in five
            return _as_sent(self._about_ask(snapshot, random))
        possible = self._sent(snapshot, now) if random.random() < 0.8 else []  # noqa: PLR2004 - four in five
        if possible:
            event = random.choice(possible)
        elif self._events:
            event = Event(random.choice(self._events), by=self._someone(random))
        else:
            return None
        return _as_sent(replace(event, data=self._data(snapshot, event, random)))

    def tried(self, snapshot: Snapshot, random: Random, by: Actor) -> Event:
        """An event that the actor may have no right to send."""
        asks = [ask.id for ask in snapshot.asks.values()]
        tries = [Event(name, by=by) for name in self._events]
        for ask in asks:
            tries += [claim_ask(ask, timedelta(seconds=2), by), release_ask(ask, by)]
            tries += [delegate_ask(ask, random.choice(USERS), by), Event("answer", by=by, ref=ask)]
        return random.choice(tries)

    def _sent(self, snapshot: Snapshot, now: Any) -> list[Event]:
        asks = tuple((state, ask.id, ask.roles) for state, ask in snapshot.asks.items())
        key = (snapshot.states, asks, fingerprint((snapshot.acted, snapshot.votes)))
        if key not in self._possible:
            if len(self._possible) > MOST_KNOWN:
                self._possible.clear()
            after = self._happenings.after(snapshot, now)
            self._possible[key] = [each.event for each in after if each.kind == "sent"]
        return self._possible[key]

    def _someone(self, random: Random) -> Actor:
        return self._one_of(self._roles, random)

    def _one_of(self, roles: Sequence[str], random: Random) -> Actor:
        """An actor with one of the roles; None if it must be a sender of an event that was not sent yet."""
        return random.choice(self._people.of(random.choice(roles or ("",))) or self._people.of(""))

    def _about_ask(self, snapshot: Snapshot, random: Random) -> Event:
        ask = snapshot.asks[random.choice(sorted(snapshot.asks))]
        by = self._one_of(ask.roles, random)
        return random.choice(
            (
                claim_ask(ask.id, timedelta(seconds=2), by),
                claim_ask(ask.id, timedelta(hours=25), by),
                release_ask(ask.id, by),
                delegate_ask(ask.id, random.choice(USERS), by),
            )
        )

    def _data(self, snapshot: Snapshot, event: Event, random: Random) -> Any:
        if event.name in self._payloads:
            return self._payloads[event.name](random)
        rows = (row.takes for row in self.chart.model.transitions if event.name in row.events)
        declared = next((takes for takes in rows if takes), None) or self._form(snapshot, event)
        kind = self.chart.types.get(declared or "")
        return None if kind is None else sample(kind.schema(), random)

    def _form(self, snapshot: Snapshot, event: Event) -> str | None:
        for state, ask in snapshot.asks.items():
            declared = self.chart.nodes[state].model.ask
            if ask.id == event.ref and declared is not None:
                return declared.form
        return None


def _as_sent(event: Event) -> Event:
    """An event whose sender has no roles that stand for people: the engine must resolve those."""
    return replace(
        event, by=replace(event.by, roles=frozenset(each for each in event.by.roles if not is_person(each)))
    )


class SimulatedClient:
    """Makes calls one after the other, with a request id when a call must not take effect twice."""

    def __init__(self, name: str, serve: Serve, random: Random, trace: Trace) -> None:
        self.name = name
        self._serve, self._random, self._trace = serve, random, trace
        self._number = 0

    def request_id(self, *, always: bool = False) -> str | None:
        """A new request id, or none."""
        self._number += 1
        has_one = self._random.random() < 0.8 or always  # noqa: PLR2004 - most
        return f"{self.name}/{self._number}" if has_one else None

    async def create(
        self, key: Key, chart: str, context: Any, request_id: str | None, *, by: Actor = SYSTEM
    ) -> Answer | None:
        """Create an instance; with a request id, repeat until there is an answer."""

        async def call(engine: Engine) -> Answer:
            return await engine.create(*key, chart, context=context, by=by, request_id=request_id)

        return await self._insist(call, f"create {key[1]}", request_id)

    async def send(
        self, key: Key, event: Event, request_id: str | None, expected_seq: int | None
    ) -> Answer | None:
        """Send an event; with a request id, repeat until there is an answer."""

        async def call(engine: Engine) -> Answer:
            return await engine.send(*key, event, request_id=request_id, expected_seq=expected_seq)

        return await self._insist(call, f"{event.name} to {key[1]}", request_id)

    async def cancel(self, key: Key, request_id: str | None) -> Answer | None:
        """Cancel an instance with its children."""

        async def call(engine: Engine) -> Answer:
            return await engine.cancel(*key, by=SYSTEM, request_id=request_id)

        return await self._insist(call, f"cancel {key[1]}", request_id)

    async def read(self, key: Key, by: Actor, ownership: Ownership, lines: Sequence[HistoryRow]) -> None:
        """Read an instance and an inbox as an actor who may see only some of them."""

        async def call(engine: Engine) -> Any:
            row = await engine.row(*key)
            shown = await engine.visibility.may_read(row, by)
            ownership.was_read(row, lines, by, shown=shown)
            ownership.was_listed((await Inbox(engine).page(key[0], by, None, 100)).asks, by)
            return f"{'shown' if shown else 'hidden'} at {row.seq}"

        with suppress(ConnectionError, EngineError, StoreError):
            self._trace.note(self.name, f"{by.id} reads {key[1]}: {await self._serve(call)}")

    async def _insist(
        self, call: Callable[[Engine], Any], what: str, request_id: str | None
    ) -> Answer | None:
        """Call until there is an answer; a call without a request id is made once."""
        twice = request_id is not None and self._random.random() < 0.3  # noqa: PLR2004 - three in ten
        for attempt in range(PATIENCE):
            try:
                if twice:
                    answers = await asyncio.gather(self._serve(call), self._serve(call))
                    answer: Answer = answers[0]
                else:
                    answer = await self._serve(call)
            except (ConnectionError, StoreError, UnknownChartError) as error:
                self._trace.note(self.name, f"{what}: {type(error).__name__}")
                if request_id is None:
                    return None
            except EngineError as error:
                self._trace.note(self.name, f"{what}: {type(error).__name__}")
                return None
            else:
                self._trace.note(self.name, f"{what}: {_short(answer)}")
                return answer
            await asyncio.sleep(self._random.random() * min(2.0, 0.2 * (attempt + 1)))
        raise TimeoutError(f"{self.name} got no answer to: {what}")


def _short(answer: Any) -> str:
    return f"{answer.code} refused" if hasattr(answer, "code") else f"{answer.seq} {'+'.join(answer.states)}"


def names(chart: str, count: int) -> Sequence[Key]:
    """Ids of instances that all clients use."""
    return [(TENANTS[n % len(TENANTS)], f"{chart.lower()}{n}") for n in range(count)]
