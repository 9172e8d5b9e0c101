"""Questions: the row of an ask says what its snapshot and its chart say, and so does what is noted of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from headway.codec import decode, encode
from headway.statechart.chart import Chart
from headway.statechart.effects import ChangedAsk, ClosedAsk, OpenedAsk, RenewedAsk
from headway.statechart.snapshot import Snapshot
from headway.store.rows import AskRow, HistoryRow
from headway.store.unit import Changes

Noted = OpenedAsk | RenewedAsk | ChangedAsk | ClosedAsk
Told = tuple[Any, ...]
"""What happened to an ask, in which tenant, to which, and how it is then."""


def open_asks(chart: Chart, snapshot: Snapshot) -> set[Any]:
    """The questions of an instance, as its rows should have them."""
    return {_as_asked(chart, snapshot, state) for state in snapshot.asks}


def _as_asked(chart: Chart, snapshot: Snapshot, state: str) -> tuple[Any, ...]:
    node, ask = chart.nodes[state], snapshot.asks[state]
    form, shows = (None, ()) if node.model.ask is None else (node.model.ask.form, node.model.ask.shows)
    put = (state, node.answers, form, frozenset(shows), ask.since or snapshot.since[state])
    return (ask.id, *put, ask.roles, ask.deadline, ask.claimed_by, ask.claimed_until, ask.delegated_to)


def stored_asks(rows: Iterable[AskRow]) -> set[Any]:
    """The questions that are open, as their rows have them."""
    return {_as_stored(row) for row in rows if row.closed_at is None}


def _as_stored(row: AskRow) -> tuple[Any, ...]:
    put = (row.state, row.answers, row.form, frozenset(_shown(row)), row.opened_at)
    return (row.id, *put, row.roles, row.deadline, row.claimed_by, row.claimed_until, row.delegated_to)


def _shown(row: AskRow) -> dict[str, Any]:
    return {} if row.shows == "{}" else decode(dict[str, Any], row.shows)


def check_notes(changes: Changes, violated: Callable[[str], None]) -> None:
    """A journal keeps what people were asked and saw, who took it on, and what was closed by whom."""
    told = Counter(each for line in changes.history if line.note for each in _told(line))
    done = Counter(_done(changes))
    for each in {**told, **done}:
        if told[each] != done[each]:
            kind, _, ask, *rest = each
            said = f"{done[each]} times written, and {told[each]} times noted: {', '.join(map(str, rest))}"
            violated(f"{kind} of {ask} was {said}")


def _told(line: HistoryRow) -> Iterator[Told]:
    for each in decode(list[Noted], line.note or "[]"):
        if isinstance(each, OpenedAsk | RenewedAsk):
            shown = encode(each.shows).decode()
            put = (each.state, each.roles, each.answers, each.form, each.deadline, shown)
            yield (type(each).__name__, line.tenant, each.ask, *put)
        if isinstance(each, RenewedAsk | ChangedAsk):
            held = (each.roles, each.claimed_by, each.claimed_until, each.delegated_to)
            yield (ChangedAsk.__name__, line.tenant, each.ask, *held)
        if isinstance(each, ClosedAsk):
            yield (ClosedAsk.__name__, line.tenant, each.ask, each.by, each.event)


def _done(changes: Changes) -> Iterator[Told]:
    for kind, rows in ((OpenedAsk, changes.asks), (RenewedAsk, changes.asks_renewed)):
        for row in rows:
            put = (row.state, row.roles, row.answers, row.form, row.deadline, row.shows)
            yield (kind.__name__, row.tenant, row.id, *put)
    for change in changes.asks_changed:
        held = (change.roles, change.claimed_by, change.claimed_until, change.delegated_to)
        yield (ChangedAsk.__name__, change.tenant, change.id, *held)
    for closing in changes.asks_closed:
        yield (ClosedAsk.__name__, closing.tenant, closing.id, closing.closed_by, closing.closed_event)
