"""Lives that end by themselves, whatever is killed on the way, and a door that many push at once."""

from collections.abc import Mapping
from typing import Any

from headway import Ask, Final, Retry, Run, State, Statechart, View, any_live
from headway.actions import add, count, spawn
from headway.codec import replace
from headway.statechart.chart import Chart, Charted

LEASE = 1.0
"""After how many seconds without a sign of life work is taken from its worker."""

TIRELESS = Retry(None, base="50ms", factor=1.5, cap="1s")


def toil() -> Run:
    """Work that is tried until it succeeds."""
    return Run("toil", lease=LEASE, heartbeat="300ms", retry=TIRELESS)


class Errand(Statechart, cancel="stop"):
    """Is asked for, done by workers in two parts, and rests in between."""

    asked = State(initial=True, ask=Ask("clerk", deadline="1500ms"))
    fetching = State(run=toil())
    resting = State()
    bringing = State(run=toil())
    done, refused, stopped = Final(), Final(), Final()

    note = asked.stay(by="clerk", emit="errand.noted", do=add("noted"))
    approve = asked.to(fetching, by="clerk", emit="errand.approved")
    refuse = asked.to(refused, by="clerk", emit="errand.refused")
    expire = asked.on_deadline.to(refused, emit="errand.expired")
    fetched = fetching.on_done.to(resting, emit="errand.fetched")
    rested = resting.after("200ms").to(bringing, emit="errand.rested")
    brought = bringing.on_done.to(done, emit="errand.done")
    stop = any_live.to(stopped, by="clerk", emit="errand.stopped")


class Parcel(Statechart):
    """Part of an order or of a freight; has as many errors as it is parts, and one less when it is packed."""

    packing = State(initial=True, run=toil(), entry=count("errors", "parts"))
    waiting = State()
    sent = Final()

    packed = packing.on_done.to(waiting, emit="parcel.packed", do=count("errors", -1))
    tired = waiting.after("100ms").to(sent, emit="parcel.sent")


def two_parcels(_view: View) -> list[dict[str, object]]:
    """What an order begins with."""
    return [{"parts": 1}, {"parts": 2}]


ALL_SENT = "children.packing == 0 and children.waiting == 0 and children.sent >= 2"


class Order(Statechart, max_children=10):
    """Has ended when all its parcels have."""

    gathering = State(initial=True, entry=spawn("Parcel", make=two_parcels))
    complete = Final()

    more = gathering.stay(by="clerk", do=spawn("Parcel", parts=3), emit="order.grown")
    settle = gathering.on("child.changed").to(complete, when=ALL_SENT, emit="order.complete")


class Freight(Statechart, max_children=10, children="together"):
    """An order that hears of all that its parcels do at once."""

    gathering = State(initial=True, entry=spawn("Parcel", make=two_parcels))
    complete = Final()

    more = gathering.stay(by="clerk", do=spawn("Parcel", parts=3), emit="freight.grown")
    settle = gathering.on("child.changed").to(complete, when=ALL_SENT, emit="freight.complete")


def mark(view: View) -> Mapping[str, Any]:
    """Whoever pushes the door leaves a mark."""
    return {"mark": view.payload["mark"]}


class Door(Statechart):
    """What can be done with it depends on who was there before."""

    ajar, shut, locked = State(initial=True), State(), State()
    gone = Final()

    close = ajar.to(shut, do=mark)
    open_ = shut.to(ajar, do=mark)
    lock = shut.to(locked, do=mark)
    unlock = locked.to(shut, do=mark)
    remove = any_live.to(gone)


def second(charted: type[Statechart]) -> Chart:
    """The same chart as its next version."""
    chart = charted.chart
    return Chart(replace(chart.model, version=chart.version + 1), chart.functions, chart.types)


PARENTS = (Order, Freight)
LIVES = (Errand, *PARENTS, Parcel)
OLD: tuple[Charted, ...] = (*LIVES, Door)
NEW: tuple[Charted, ...] = (*map(second, LIVES), Door)
CHARTS: tuple[Charted, ...] = (*OLD, *NEW[:-1])
"""All versions; processes may know only the old ones, or only the new ones."""
