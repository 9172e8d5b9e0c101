"""Counts: how many instances are in which leaf states and how they flow, true at a place of the event log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated

from fastapi import Query

from headway.api.access import readable_by
from headway.api.bodies import ResponseBody
from headway.api.instances import Time
from headway.api.parameters import Cipher, Here, OneVersion, Who, needs
from headway.api.route import Router
from headway.clock import time_text
from headway.codec import Meta
from headway.engine.flow import WINDOWS, Flow, Window, percentile
from headway.engine.tally import Group, Tally

router = Router(prefix="/v1/counts", tags=["counts"], dependencies=[needs("read")])

Name = Annotated[str | None, Query(description="Of this chart only.", min_length=1, max_length=400)]
ByWindow = Annotated[dict[str, int], Meta(description="How many in the last minute, hour and day.")]


class Stays(ResponseBody):
    """How long those that left had stayed, in seconds, right to within 5 %; null if none has left."""

    p50: float | None
    p95: float | None


class LeafCount(ResponseBody):
    """The instances of a version that are in the same leaf states."""

    chart: str
    version: int
    states: Annotated[list[str], Meta(description="The leaf states, in the order of the chart.")]
    now: Annotated[int, Meta(description="How many there are: ended ones, too, until they are pruned.")]
    oldest: Annotated[Time | None, Meta(description="When the living one that is longest there got there.")]
    entered: ByWindow
    left: ByWindow
    seconds: Annotated[dict[str, Stays], Meta(description="By the same windows.")]


class TransitionCount(ResponseBody):
    """How often a transition was taken between two sets of leaf states."""

    chart: str
    version: int
    transition: str
    before: list[str]
    after: list[str]
    taken: ByWindow


class InstanceCounts(ResponseBody):
    """All numbers of a tenant, true at one place of its event log."""

    id: Annotated[
        str, Meta(description="The place: events after it (`after` of `/v1/events`) are not counted yet.")
    ]
    at: Annotated[Time, Meta(description="When the windows end.")]
    since: Annotated[Time, Meta(description="From when on the node has counted what flows.")]
    items: list[LeafCount]
    transitions: list[TransitionCount]


@router.get("", operation_id="get_counts")
async def get_counts(
    node: Here, caller: Who, cipher: Cipher, *, chart: Name = None, version: OneVersion = None
) -> InstanceCounts:
    """How many instances are in which leaf states, since when, and how they flow.

    Charts of which the caller may read only their own instances are left out.
    """
    readable = await readable_by(node.engine, caller)
    closed = () if readable is None else readable.closed
    tally = await node.tallies.of(caller.tenant)
    oldest = await tally.oldest()
    now = await node.engine.store.now()

    def shows(name: str, number: int) -> bool:
        return chart in {None, name} and version in {None, number} and name not in closed

    numbers = tally.numbers
    return InstanceCounts(
        id=cipher.place(tally.cursor),
        at=time_text(now),
        since=time_text(tally.since or now),
        items=[each for each in _leaves(numbers, oldest, now) if shows(each.chart, each.version)],
        transitions=[each for each in _passages(numbers, now) if shows(each.chart, each.version)],
    )


def _leaves(numbers: Tally, oldest: Mapping[Group, datetime | None], now: datetime) -> Iterator[LeafCount]:
    for group in sorted({*numbers.now, *numbers.entered, *numbers.left}):
        at = oldest.get(group) if numbers.now[group] else None
        left = {window.name: _counted(numbers.left.get(group), window, now) for window in WINDOWS}
        yield LeafCount(
            chart=group.chart,
            version=group.version,
            states=group.states.split("+"),
            now=numbers.now[group],
            oldest=None if at is None else time_text(at),
            entered=_totals(numbers.entered.get(group), now),
            left={name: found.total() for name, found in left.items()},
            seconds={name: _stays(found) for name, found in left.items()},
        )


def _passages(numbers: Tally, now: datetime) -> Iterator[TransitionCount]:
    for passage, flow in sorted(numbers.passages.items()):
        yield TransitionCount(
            chart=passage.chart,
            version=passage.version,
            transition=passage.transition,
            before=passage.before.split("+"),
            after=passage.after.split("+"),
            taken=_totals(flow, now),
        )


def _stays(found: Counter[int]) -> Stays:
    return Stays(p50=percentile(found, 0.5), p95=percentile(found, 0.95))


def _counted(flow: Flow | None, window: Window, now: datetime) -> Counter[int]:
    return Counter() if flow is None else flow.counted(window, now)


def _totals(flow: Flow | None, now: datetime) -> dict[str, int]:
    return {window.name: _counted(flow, window, now).total() for window in WINDOWS}
