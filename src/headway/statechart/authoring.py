"""The words a chart is written in: states, transitions between them, asks, work and retries.

Nothing here raises for a wrong value: values are kept as written, with their line, and judged
together when the class is complete (`define`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Literal, NamedTuple, Self, TypedDict, Unpack

from headway.errors import InputError
from headway.statechart import model
from headway.statechart.snapshot import SYSTEM, Actor, Event
from headway.statechart.types import plain

Duration = str | float | timedelta
Function = Callable[..., Any]
Guard = Function | str
Many = str | Sequence[str]


class Making(NamedTuple):
    """An action that needs a function; it is complete when the function has its name."""

    action: Callable[[str | None], model.Action]
    function: Function | None


Doing = Function | model.Action | Making | tuple[model.Action, ...]
Telling = str | Making


class Line(NamedTuple):
    """Where in a file something was written."""

    file: str = ""
    number: int = 0


def _line(depth: int = 2) -> Line:
    frame = sys._getframe(depth)  # noqa: SLF001 - the only way to know the author's line
    return Line(frame.f_code.co_filename, frame.f_lineno)


class Retry:
    """How work that failed is tried again: `Retry(times=5, base="2s", factor=2, cap="1m", jitter=0.3)`.

    `on` limits it to some error codes; the first retry that names a code, or none, applies.
    """

    def __init__(
        self,
        times: int | None = 2,
        *,
        on: Many = (),
        base: Duration = "1s",
        factor: float = 2.0,
        cap: Duration | None = None,
        jitter: float = 0.0,
    ) -> None:
        self.times, self.on, self.base, self.factor, self.cap, self.jitter = (
            times,
            on,
            base,
            factor,
            cap,
            jitter,
        )

    @classmethod
    def never(cls, *codes: str) -> Self:
        """These codes are permanent: they are not tried again."""
        return cls(0, on=codes)


class Run:
    """Work with its limits: `Run("pay", timeout="60s", retry=Retry(3), errors=("declined",))`."""

    def __init__(
        self,
        handler: str,
        *,
        timeout: Duration | None = None,
        retry: Retry | Sequence[Retry] = (),
        errors: Many = (),
        heartbeat: Duration = "10s",
        lease: Duration = "90s",
        queue: str = "default",
        priority: int = 0,
        affinity: str | None = None,
        concurrency: str | None = None,
        timeout_code: str = "timeout",
        lost_code: str = "lost",
    ) -> None:
        self.handler, self.timeout, self.retry, self.errors = handler, timeout, retry, errors
        self.heartbeat, self.lease, self.queue, self.priority = heartbeat, lease, queue, priority
        self.affinity, self.concurrency = affinity, concurrency
        self.timeout_code, self.lost_code = timeout_code, lost_code


class Ask:
    """A question to people: `Ask("manager", form=Verdict, deadline="2d", remind="1d", late="refuse")`."""

    def __init__(
        self,
        *roles: str,
        form: object = None,
        deadline: Duration | None = None,
        remind: Duration | None = None,
        escalate: dict[str, Duration] | None = None,
        late: str = "refuse",
        shows: Many = (),
    ) -> None:
        self.roles, self.form, self.deadline, self.remind = roles, form, deadline, remind
        self.escalate, self.late, self.shows = escalate or {}, late, shows


class Row(TypedDict, total=False):
    """What a transition can say besides its source and its target."""

    event: Many
    by: Many
    when: Guard | Sequence[Guard]
    takes: object
    do: Doing | Sequence[Doing]
    sets: Many
    clears: Many
    counts: Many
    emit: Telling | Sequence[Telling]
    webhook: Telling | Sequence[Telling]
    live: Telling | Sequence[Telling]
    distinct_from: Many
    quorum: int
    countersign: Many
    no_agent: bool
    internal: bool
    but: Sequence[State]
    meaning: str


class Written:
    """One row as its author wrote it."""

    __slots__ = ("after", "events", "kind", "line", "options", "repeats", "source", "targets")

    def __init__(
        self, source: Source, kind: str, targets: tuple[State, ...], options: Row, *, line: Line
    ) -> None:
        self.source = source.state
        self.events = source.events
        self.after = source.delay
        self.repeats = source.repeats
        self.kind = kind
        self.targets = targets
        self.options = options
        self.line = line


class Transition:
    """A named transition of a chart; called, it makes the event that fires it."""

    def __init__(self, *rows: Written) -> None:
        self.rows = rows
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        """The attribute's name is the transition's and, unless it says otherwise, its event's."""
        self.name = self.name or name

    def __or__(self, other: Transition) -> Transition:
        """Several rows under one name."""
        return Transition(*self.rows, *other.rows)

    def __call__(
        self, data: object = None, *, by: Actor = SYSTEM, ref: str | None = None, reason: str | None = None
    ) -> Event:
        """The event that fires this transition; raises InputError for an actor that lacks its `by=`."""
        if isinstance(data, Actor):
            raise InputError(f"{self.name} is sent by {data.id}: write by={data.id}")
        return Event(self.event, plain(data), by, ref, reason=reason)

    def __repr__(self) -> str:
        """The name, and where it leads."""
        ends = {target.name for row in self.rows for target in row.targets}
        return f"<Transition {self.name} to {', '.join(sorted(ends)) or 'stay'}>"

    @property
    def event(self) -> str:
        """The name of the event that fires this transition."""
        named = _many(self.rows[0].options.get("event", ())) or self.rows[0].events
        return named[0] if named else self.name


class Source:
    """Where transitions start: a state, together with what triggers them."""

    state: State | None
    events: tuple[str, ...] | None = None
    delay: Duration | Function | None = None
    repeats: bool = False

    def to(self, *targets: State, **row: Unpack[Row]) -> Transition:
        """Leave for a target (several targets: one in each region of a parallel state)."""
        return self._row("to", targets, row)

    def stay(self, **row: Unpack[Row]) -> Transition:
        """Act without leaving the state."""
        return self._row("stay", (), row)

    def computes(self, *lands: State, **row: Unpack[Row]) -> Transition:
        """Change the facts; the status is computed from them and must be one of these."""
        return self._row("computes", lands, row)

    def _row(self, kind: str, targets: tuple[State, ...], row: Row) -> Transition:
        written = Written(self, kind, targets, row, line=_line(3))
        if self.state is not None:
            self.state.rows.append(written)
        return Transition(written)


class Trigger(Source):
    """A state together with the event that triggers."""

    def __init__(
        self, state: State | None, events: tuple[str, ...] | None, delay: Duration | Function | None = None
    ) -> None:
        self.state, self.events, self.delay = state, events, delay


class Errors(Trigger):
    """The failure of a state's work, for all codes; called with codes, for these."""

    def __call__(self, *codes: str) -> Trigger:
        """Only these error codes."""
        return Trigger(self.state_named, tuple(f"error.work.{{state}}.{code}" for code in codes))

    @property
    def state_named(self) -> State:
        """The state whose work failed."""
        assert self.state is not None
        return self.state


class State(Source):
    """A state. Children come first: `filling = State(page, upload, progress=(25, 65))`."""

    kind = "atomic"

    def __init__(
        self,
        *children: State,
        initial: bool = False,
        meaning: str = "",
        waits_for: str = "",
        run: str | Run | None = None,
        timeout: Duration | None = None,
        retry: Retry | Sequence[Retry] = (),
        errors: Many = (),
        ask: Ask | None = None,
        where: str | None = None,
        progress: tuple[int, int] | None = None,
        says: str = "",
        entry: Doing | Sequence[Doing] = (),
        exit: Doing | Sequence[Doing] = (),  # noqa: A002 - the word of every statechart
    ) -> None:
        self.children, self.initial, self.meaning, self.waits_for = children, initial, meaning, waits_for
        self.run, self.timeout, self.retry, self.errors = run, timeout, retry, errors
        self.ask, self.where, self.progress, self.says = ask, where, progress, says
        self.entry, self.exit = entry, exit
        self.name = ""
        self.rows: list[Written] = []
        self.line = _line()

    @property
    def state(self) -> State:  # type: ignore[override]  # a state is its own source
        """The state itself."""
        return self

    def __set_name__(self, owner: type, name: str) -> None:
        """The attribute's name is the state's."""
        self.name = self.name or name

    def __or__(self, other: State | States) -> States:
        """Several states that share transitions."""
        return States((self,)) | other

    def on(self, *events: str) -> Trigger:
        """When one of these events comes."""
        return Trigger(self, events)

    def after(self, delay: Duration | Function) -> Trigger:
        """When this state has lasted that long."""
        return Trigger(self, None, delay)

    def every(self, delay: Duration | Function) -> Trigger:
        """Each time this much of the state's time has passed."""
        trigger = Trigger(self, None, delay)
        trigger.repeats = True
        return trigger

    @property
    def always(self) -> Trigger:
        """As soon as the guard holds, without an event."""
        return Trigger(self, ())

    @property
    def on_done(self) -> Trigger:
        """When the state's work is done, or its final child is reached."""
        return Trigger(self, ("done.{kind}.{state}",))

    @property
    def on_error(self) -> Errors:
        """When the state's work, or work of a state inside it, has failed for good."""
        return Errors(self, ("error.work.{state}",))

    @property
    def on_deadline(self) -> Trigger:
        """When nobody has answered in time."""
        return Trigger(self, ("deadline.{state}",))

    @property
    def on_answer(self) -> Trigger:
        """When the ask is answered by its form."""
        return Trigger(self, ("answer.{state}",))


class Final(State):
    """A state in which the life, or the part of it around this state, ends."""

    kind = "final"


class Parallel(State):
    """A state whose children are all active at once."""

    kind = "parallel"


class History(State):
    """Stands for the children that were active last; `History(otherwise=draft)` before there are any."""

    kind = "shallow"

    def __init__(self, *, deep: bool = False, otherwise: State | None = None, meaning: str = "") -> None:
        super().__init__(meaning=meaning)
        self.line = _line()
        self.kind = "deep" if deep else "shallow"
        self.otherwise = otherwise


class States:
    """Several states that share transitions: `(queued | running).to(cancelled)`."""

    def __init__(self, sources: tuple[Source, ...]) -> None:
        self.sources = sources

    def __or__(self, other: State | States) -> States:
        """One more."""
        return States(self.sources + (other.sources if isinstance(other, States) else (other,)))

    def on(self, *events: str) -> States:
        """When one of these events comes, in each of them."""
        return States(tuple(Trigger(source.state, events) for source in self.sources))

    def after(self, delay: Duration | Function) -> States:
        """When one of them has lasted that long."""
        return States(tuple(Trigger(source.state, None, delay) for source in self.sources))

    @property
    def always(self) -> States:
        """As soon as the guard holds, in each of them."""
        return States(tuple(Trigger(source.state, ()) for source in self.sources))

    def to(self, *targets: State, **row: Unpack[Row]) -> Transition:
        """Leave each of them for the target."""
        return self._rows("to", targets, row)

    def stay(self, **row: Unpack[Row]) -> Transition:
        """Act without leaving, in each of them."""
        return self._rows("stay", (), row)

    def computes(self, *lands: State, **row: Unpack[Row]) -> Transition:
        """Change the facts in each of them; the status computed must be one of these."""
        return self._rows("computes", lands, row)

    def _rows(self, kind: str, targets: tuple[State, ...], row: Row) -> Transition:
        line = _line(3)
        rows = [Written(source, kind, targets, row, line=line) for source in self.sources]
        for written in rows:
            if written.source is not None:
                written.source.rows.append(written)
        return Transition(*rows)


class AnyLive(Source):
    """Any state that is not final: `any_live.to(cancelled, by="owner")`."""

    state = None

    def on(self, *events: str) -> Trigger:
        """When one of these events comes."""
        return Trigger(None, events)

    def after(self, delay: Duration | Function) -> Trigger:
        """When the whole life has lasted that long."""
        return Trigger(None, None, delay)


any_live = AnyLive()


def stamp(*fields: str) -> model.Stamp:
    """Write the time of the step into fields of the context."""
    return model.Stamp(fields=fields)


def clear(*fields: str) -> model.Clear:
    """Set fields of the context back to nothing."""
    return model.Clear(fields=fields)


def log(label: str, expr: str | None = None) -> model.Log:
    """Write a line to the log, with the value of an expression."""
    return model.Log(label=label, expr=expr)


def put(**values: Any) -> model.Put:
    """Write literal values into the context: `do=put(error_code="E_TIMEOUT")`."""
    return model.Put(values=values)


def assign(**expressions: str) -> tuple[model.Assign, ...]:
    """Write values of safe expressions into the context: `do=assign(amount="_event.data.amount")`."""
    return tuple(model.Assign(location=place, expr=text) for place, text in expressions.items())


def count(name: str, by: int | str = 1) -> model.Count:
    """Add a number, or the value of an expression, to a counter of the instance."""
    if isinstance(by, str):
        return model.Count(name=name, expr=by)
    return model.Count(name=name, by=by)


def add(key: str, by: int = 1) -> model.Add:
    """Add to a counter shared between instances; `{name}` in the key is taken from the context."""
    return model.Add(key=key, by=by)


def record(kind: str, key: str, *fields: str) -> model.PutRecord:
    """Store fields of the context as a record; `{name}` in the key is taken from the context."""
    return model.PutRecord(kind=kind, key=key, fields=fields)


def spawn(chart: str, make: Function | None = None, **values: Any) -> Making:
    """Create a child of a chart; `make` answers with the child's context, or with one for each child."""
    return Making(lambda name: model.Spawn(chart=chart, values=values, make=name), make)


def tell(to: str, event: str, *fields: str) -> model.Tell:
    """Send an event to "parent", to "children", or to the instance an expression names."""
    return model.Tell(to=to, event=event, fields=fields)


def topic(name: str, *fields: str, data: Function | None = None) -> Making:
    """A message on a topic, with fields of the context, or with what a function makes of the step."""
    return _publish("topic", name, fields, data)


def webhook(name: str, *fields: str, data: Function | None = None) -> Making:
    """A message to the webhooks that listen to it."""
    return _publish("webhook", name, fields, data)


def live(name: str, *fields: str, data: Function | None = None) -> Making:
    """A message on the live stream."""
    return _publish("live", name, fields, data)


def _publish(
    kind: Literal["topic", "webhook", "live"], name: str, fields: tuple[str, ...], data: Function | None
) -> Making:
    return Making(lambda maker: model.Publish(kind=kind, name=name, fields=fields, data=maker), data)


def _many(value: Many) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
