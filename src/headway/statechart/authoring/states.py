"""The words a chart is written in: states, and the transitions between them.

Nothing here raises for a wrong value or an unknown word: they are kept as written, with their line, and
judged together when the class is complete (`define`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from inspect import CO_OPTIMIZED
from typing import Never, TypedDict, Unpack

from headway.errors import InputError
from headway.statechart.authoring.declarations import (
    Ask,
    Doing,
    Duration,
    Function,
    Guard,
    Many,
    Retry,
    Run,
    SourceLine,
    Telling,
    line_here,
    several,
)
from headway.statechart.snapshot import SYSTEM, Actor, Event
from headway.statechart.types import plain


class RowOptions(TypedDict, total=False):
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
    but: State | Sequence[State]
    meaning: str


class Written:
    """One row as its author wrote it."""

    __slots__ = ("after", "cause", "events", "kind", "line", "options", "repeats", "source", "targets")

    def __init__(
        self, source: Source, kind: str, targets: tuple[State, ...], options: RowOptions, *, line: SourceLine
    ) -> None:
        self.source = source.state
        self.cause = source.cause
        self.events = source.events
        self.after = source.delay
        self.repeats = source.repeats
        self.kind = kind
        self.targets = targets
        self.options = options
        self.line = line

    def awaited(self) -> tuple[str, ...]:
        """The events a trigger names, once its state has a name; none when it names none."""
        engine_events = ENGINE_EVENTS.get(self.cause)
        if engine_events is None or self.source is None:
            return self.events or ()
        return engine_events(self.source, self.events)


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
            raise InputError(f"{self.name} got an actor as its data: write by={data.id}")
        return Event(self.event, plain(data), by, ref, reason=reason)

    def __repr__(self) -> str:
        """The name, and where it leads."""
        ends = {target.name for row in self.rows for target in row.targets}
        return f"<Transition {self.name} to {', '.join(sorted(ends)) or 'stay'}>"

    @property
    def event(self) -> str:
        """The name of the event that fires this transition."""
        named = several(self.rows[0].options.get("event", ())) or self.rows[0].awaited()
        name = named[0] if named else self.name
        return "answer" if name.startswith("answer.") else name


class Source:
    """Where transitions start: a state, together with what triggers them."""

    state: State | None
    cause: str = "event"
    events: tuple[str, ...] | None = None
    delay: Duration | Function | None = None
    repeats: bool = False

    def to(self, *targets: State, **row: Unpack[RowOptions]) -> Transition:
        """Leave for a target (several targets: one in each region of a parallel state)."""
        return self._row("to", targets, row)

    def stay(self, **row: Unpack[RowOptions]) -> Transition:
        """Act without leaving the state."""
        return self._row("stay", (), row)

    def computes(self, *lands: State, **row: Unpack[RowOptions]) -> Transition:
        """Change the facts; the status is computed from them and must be one of these."""
        return self._row("computes", lands, row)

    def _row(self, kind: str, targets: tuple[State, ...], row: RowOptions) -> Transition:
        written = Written(self, kind, targets, row, line=line_here(3))
        _remember(written)
        return Transition(written)


BODY_ROWS = "__headway_rows__"
"""Where a class body keeps the rows written in it, so that one without a name is missed."""


def _remember(*rows: Written) -> None:
    frame = sys._getframe(3)  # noqa: SLF001 - `any_live` is shared by all charts: only the body knows its rows
    if "__qualname__" in frame.f_locals and not frame.f_code.co_flags & CO_OPTIMIZED:
        frame.f_locals.setdefault(BODY_ROWS, []).extend(rows)
    for written in rows:
        if written.source is not None:
            written.source.rows.append(written)


class Trigger(Source):
    """A state together with the event that triggers."""

    def __init__(
        self,
        state: State | None,
        events: tuple[str, ...] | None = None,
        delay: Duration | Function | None = None,
        *,
        cause: str = "event",
    ) -> None:
        self.state, self.events, self.delay, self.cause = state, events, delay, cause


class Errors(Trigger):
    """The failure of a state's work, for all codes; called with codes, for these."""

    def __call__(self, *codes: str) -> Trigger:
        """Only these error codes."""
        return Trigger(self.state, codes, cause=self.cause)


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
        **unknown: Never,
    ) -> None:
        self.unknown = unknown
        self.given: tuple[object, ...] = children
        self.children = _states(children)
        self.initial, self.meaning, self.waits_for = initial, meaning, waits_for
        self.run, self.timeout, self.retry, self.errors = run, timeout, retry, errors
        self.ask, self.where, self.progress, self.says = ask, where, progress, says
        self.entry, self.exit = entry, exit
        self.name = ""
        self.rows: list[Written] = []
        self.line = line_here()

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
        return Trigger(self, cause="always")

    @property
    def on_done(self) -> Trigger:
        """When the state's work is done, or its final child is reached."""
        return Trigger(self, cause="done")

    @property
    def on_error(self) -> Errors:
        """When the state's work, or work of a state inside it, has failed for good."""
        return Errors(self, cause="error")

    @property
    def on_deadline(self) -> Trigger:
        """When nobody has answered in time."""
        return Trigger(self, cause="deadline")

    @property
    def on_answer(self) -> Trigger:
        """When the ask is answered by its form."""
        return Trigger(self, cause="answer")


def _states(given: tuple[object, ...]) -> tuple[State, ...]:
    return tuple(each for each in given if isinstance(each, State))


def working(state: State) -> list[State]:
    """The states whose work fails for a state: itself, or those inside it that run work."""
    if state.run is not None or not state.children:
        return [state]
    return [each for child in state.children for each in _inside(child) if each.run is not None]


def _inside(state: State) -> list[State]:
    return [state, *(each for child in state.children for each in _inside(child))]


def _error_events(state: State, codes: tuple[str, ...] | None) -> tuple[str, ...]:
    failing = [f"error.work.{each.name}" for each in working(state)]
    if codes is None:
        return tuple(failing)
    return tuple(f"{event}.{code}" for code in codes for event in failing)


ENGINE_EVENTS: dict[str, Callable[[State, tuple[str, ...] | None], tuple[str, ...]]] = {
    "done": lambda state, _: (f"done.{'state' if state.run is None else 'work'}.{state.name}",),
    "error": _error_events,
    "deadline": lambda state, _: (f"deadline.{state.name}",),
    "answer": lambda state, _: (f"answer.{state.name}",),
}


class Final(State):
    """A state in which the life, or the part of it around this state, ends."""

    kind = "final"


class Parallel(State):
    """A state whose children are all active at once."""

    kind = "parallel"


class History(State):
    """Stands for the children that were active last; `History(otherwise=draft)` before there are any."""

    kind = "shallow"

    def __init__(
        self, *, deep: bool = False, otherwise: State | None = None, meaning: str = "", **unknown: Never
    ) -> None:
        super().__init__(meaning=meaning, **unknown)
        self.line = line_here()
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
        return States(tuple(Trigger(source.state, cause="always") for source in self.sources))

    def to(self, *targets: State, **row: Unpack[RowOptions]) -> Transition:
        """Leave each of them for the target."""
        return self._rows("to", targets, row)

    def stay(self, **row: Unpack[RowOptions]) -> Transition:
        """Act without leaving, in each of them."""
        return self._rows("stay", (), row)

    def computes(self, *lands: State, **row: Unpack[RowOptions]) -> Transition:
        """Change the facts in each of them; the status computed must be one of these."""
        return self._rows("computes", lands, row)

    def _rows(self, kind: str, targets: tuple[State, ...], row: RowOptions) -> Transition:
        line = line_here(3)
        rows = [Written(source, kind, targets, row, line=line) for source in self.sources]
        _remember(*rows)
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
