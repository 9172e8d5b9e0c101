"""The charts of the simulator: short lifecycles that use most features, and later versions of two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.actions import add, assign, count, put, record, spawn, tell
from headway.statechart.authoring.declarations import Ask, Retry, Run, Upgrade
from headway.statechart.authoring.statechart import Statechart
from headway.statechart.authoring.states import Final, Parallel, State, any_live
from headway.statechart.model import Fact
from headway.statechart.refusal import No
from headway.statechart.snapshot import Snapshot
from headway.statechart.step.draft import View

MINE = Fact(name="mine", kind="instances", key=":{user}")
MOST = 6
QUICK = Retry(times=3, on=("flaky", "lost", "timeout"), base="300ms", factor=2)
WEIGH = count("errors", "weight - 1")
"""A heavy parcel counts as errors until it is packed; one without weight cannot be created."""
MEND = count("errors", "0 - counters.errors")


def few_enough(view: View) -> bool | No:
    """Each person may have only a few errands."""
    return view.facts["mine"] <= MOST or No(f"{view.facts['mine']} errands are too many")


class Errand(Statechart, owner="{user}", cancel="stop", facts=(MINE,)):
    """An errand: requested, approved, done by a worker that may fail, with waits in between."""

    asked = State(
        initial=True, ask=Ask("clerk", deadline="6s", remind="2s", escalate={"chief": "4s"}, shows="user")
    )
    fetching = State(
        run=Run("fetch", timeout="4s", lease="3s", heartbeat="1s", retry=QUICK, errors=("broken",)),
        progress=(0, 50),
    )
    resting = State()
    bringing = State(
        run=Run("bring", lease="3s", heartbeat="1s", retry=QUICK, concurrency="bring:{user}"),
        progress=(50, 100),
    )
    done, refused, failed, stopped = Final(), Final(), Final(), Final()

    approve = asked.to(
        fetching, by=("clerk", "chief"), when=few_enough, emit="errand.approved", do=add("approved:{user}")
    )
    refuse = asked.to(refused, by=("clerk", "chief"), webhook="errand.refused")
    note = asked.stay(by="clerk", emit="errand.noted", do=(put(noted=True), add("noted")))
    expire = asked.on_deadline.to(refused, emit="errand.expired")
    fetched = fetching.on_done.to(
        resting, webhook="errand.fetched", emit="errand.fetched", do=record("errand", "{instance}", "user")
    )
    broke = fetching.on_error.to(failed, emit="errand.failed", webhook="errand.failed")
    dropped = bringing.on_error.to(failed, emit="errand.failed", webhook="errand.failed")
    hurry = resting.to(bringing, by="clerk", emit="errand.hurried", distinct_from="approve")
    rested = resting.after("1500ms").to(bringing, live="errand.rested")
    brought = bringing.on_done.to(done, emit="errand.done", webhook="errand.done")
    stop = any_live.to(stopped, emit="errand.stopped")


class Parcel(Statechart, cancel="stop"):
    """Part of an order: packed and sent by workers, or lost; what is dented can be mended."""

    packing = State(
        initial=True,
        entry=WEIGH,
        run=Run("pack", timeout="3s", lease="2s", heartbeat="700ms", retry=QUICK),
    )
    waiting = State()
    sent, lost, stopped = Final(), Final(), Final()

    packed = packing.on_done.to(waiting, emit="parcel.packed", do=(tell("parent", "packed"), MEND))
    torn = packing.on_error.to(lost, counts="errors", webhook="parcel.lost")
    ship = waiting.to(sent, webhook="parcel.sent")
    tired = waiting.after("4s").to(sent, emit="parcel.sent")
    split = packing.stay(by="clerk", do=spawn("Parcel", weight=1))
    repack = waiting.to(packing, by="clerk")
    dent = (packing | waiting).stay(by="clerk", counts="errors")
    mend = (packing | waiting).stay(by="clerk", do=MEND, emit="parcel.mended")
    stop = any_live.to(stopped)


def two_parcels(_view: View) -> list[dict[str, object]]:
    """The context of a new order."""
    return [{"weight": 1}, {"weight": 2}]


def is_packed_anew(view: View) -> bool:
    """Whether a parcel of Bob's goes back, or among several that have changed one more than is new."""
    told = view.event.data or {}
    counts = told.get("counts", {told.get("from") or "new": -1, told.get("to"): 1})
    anew = counts.get("packing", 0) + min(counts.get("new", 0), 0) > 0
    return bool(anew and view.context["user"] == "bob")


def protest(_view: View) -> None:
    """Refuse."""
    raise ValueError("not like this")


class Consignment(Statechart, name="Order", cancel="stop", max_depth=3, max_children=5, children="together"):
    """An order that waits for its parcels and hurries them, while somebody checks the address in parallel."""

    gathering = State(initial=True, entry=spawn("Parcel", make=two_parcels))
    shipping = State()
    parcels = State(gathering, shipping)
    unchecked = State(ask=Ask("clerk", deadline="5s"))
    checked = State()
    address = State(unchecked, checked)
    open_ = Parallel(parcels, address, initial=True)
    complete, broken, stopped = Final(), Final(), Final()

    more = gathering.stay(by="clerk", do=spawn("Parcel", weight=1))
    spoil = gathering.stay(
        by="clerk", do=(add("spoiled"), spawn("Parcel", weight="rotten")), emit="order.spoiled"
    )
    packed = gathering.stay(do=count("packed"), emit="order.packed")
    confirm = unchecked.to(checked, by="clerk", do=assign(checked="true"), emit="order.checked")
    assume = unchecked.on_deadline.to(checked, emit="order.assumed")
    ready = gathering.on("child.changed").to(
        shipping, when="children.waiting >= 2", do=tell("children", "ship"), emit="order.ready"
    )
    object_ = open_.on("child.changed").stay(when=is_packed_anew, do=protest)
    settle = open_.on("child.changed").to(
        complete, when="children.sent >= 2 and children.packing == 0", webhook="order.complete"
    )
    give_up = open_.on("child.changed").to(broken, when="counters.errors >= 3", emit="order.broken")
    stop = any_live.to(stopped, emit="order.stopped")


CHARTS = (Errand, Consignment, Parcel)
"""The charts of a world without other charts; instances of the last are only spawned by others."""


def noted(old: Snapshot) -> Mapping[str, Any]:
    """A value for contexts of the first version, where it may be missing."""
    return {"noted": bool(old.context.get("noted"))}


CHANGES = Upgrade(
    states={"resting": "pausing"},
    renames={"rested": "paused"},
    context=noted,
    restarts=("fetching", "bringing"),
)


class NewerErrand(
    Statechart, name="Errand", version=2, owner="{user}", cancel="stop", facts=(MINE,), upgrades={1: CHANGES}
):
    """The errand with a longer deadline, more approvers, and a longer wait in a renamed state."""

    asked = State(
        initial=True,
        ask=Ask(
            "clerk",
            "auditor",
            deadline="8s",
            remind="3s",
            escalate={"chief": "5s"},
            shows=("user", "noted"),
        ),
    )
    fetching = State(
        run=Run("fetch", timeout="4s", lease="3s", heartbeat="1s", retry=QUICK, errors=("broken",)),
        progress=(0, 50),
    )
    pausing = State()
    bringing = State(
        run=Run("carry", lease="3s", heartbeat="1s", retry=QUICK, concurrency="bring:{user}"),
        progress=(50, 100),
    )
    done, refused, failed, stopped = Final(), Final(), Final(), Final()

    approve = asked.to(
        fetching,
        by=("clerk", "chief", "auditor"),
        when=few_enough,
        emit="errand.approved",
        do=add("approved:{user}"),
        distinct_from="note",
    )
    refuse = asked.to(refused, by=("clerk", "chief"), webhook="errand.refused")
    note = asked.stay(by="clerk", emit="errand.noted", do=(put(noted=True), add("noted")))
    expire = asked.on_deadline.to(refused, emit="errand.expired")
    fetched = fetching.on_done.to(
        pausing, webhook="errand.fetched", emit="errand.fetched", do=record("errand", "{instance}", "user")
    )
    broke = fetching.on_error.to(failed, emit="errand.failed", webhook="errand.failed")
    dropped = bringing.on_error.to(failed, emit="errand.failed", webhook="errand.failed")
    hurry = pausing.to(bringing, by="clerk", emit="errand.hurried", distinct_from="approve")
    paused = pausing.after("2500ms").to(bringing, live="errand.rested")
    brought = bringing.on_done.to(done, emit="errand.done", webhook="errand.done")
    stop = any_live.to(stopped, emit="errand.stopped")


class NewerParcel(
    Statechart, name="Parcel", version=2, cancel="stop", upgrades={1: Upgrade(states={"waiting": "ready"})}
):
    """The parcel with a renamed ready state, which its order is told of, and a shorter wait there."""

    packing = State(
        initial=True,
        entry=WEIGH,
        run=Run("pack", timeout="3s", lease="2s", heartbeat="700ms", retry=QUICK),
    )
    ready = State()
    sent, lost, stopped = Final(), Final(), Final()

    packed = packing.on_done.to(ready, emit="parcel.packed", do=(tell("parent", "packed"), MEND))
    torn = packing.on_error.to(lost, counts="errors", webhook="parcel.lost")
    ship = ready.to(sent, webhook="parcel.sent")
    tired = ready.after("3s").to(sent, emit="parcel.sent")
    split = packing.stay(by="clerk", do=spawn("Parcel", weight=1))
    repack = ready.to(packing, by="clerk")
    dent = (packing | ready).stay(by="clerk", counts="errors")
    mend = (packing | ready).stay(by="clerk", do=MEND, emit="parcel.mended")
    stop = any_live.to(stopped)


class Favour(Statechart, owner="{user}", read_by="clerk", cancel="stop"):
    """A favour: approved by its owner, done with a helper whom a clerk names, readable by few."""

    asked = State(
        initial=True,
        ask=Ask("{owner}", deadline="6s", remind="2s", escalate={"{helper}": "3s"}, delegate="anyone"),
    )
    agreed = State()
    doing = State(run=Run("fetch", timeout="4s", lease="3s", heartbeat="1s", retry=QUICK))
    done, refused, stopped = Final(), Final(), Final()

    agree = asked.to(agreed, by="{owner}", emit="favour.agreed")
    name = asked.stay(by="clerk", do=put(helper="bob"))
    rename = asked.stay(by="{name.by}", do=put(helper="ann"))
    remark = (asked | agreed).stay(by=("{owner}", "{helper}"), emit="favour.remarked")
    begin = agreed.to(doing, by="{agree.by}")
    lapse = agreed.after("3s").to(doing)
    expire = asked.on_deadline.to(refused)
    got = doing.on_done.to(done, webhook="favour.done")
    broke = doing.on_error.to(refused)
    stop = any_live.to(stopped, by=("{owner}", "system"))


class NewerFavour(
    Statechart,
    name="Favour",
    version=2,
    owner="{user}",
    read_by="clerk",
    cancel="stop",
    upgrades={1: Upgrade(states={"agreed": "granted"}, renames={"agree": "grant"})},
):
    """The favour that also asks the helper, and on which its creator may comment."""

    asked = State(
        initial=True,
        ask=Ask("{owner}", "{helper}", deadline="7s", remind="2s", delegate="anyone"),
    )
    granted = State()
    doing = State(run=Run("fetch", timeout="4s", lease="3s", heartbeat="1s", retry=QUICK))
    done, refused, stopped = Final(), Final(), Final()

    grant = asked.to(granted, by=("{owner}", "{helper}"), emit="favour.agreed")
    name = asked.stay(by="clerk", do=put(helper="bob"))
    rename = asked.stay(by="{name.by}", do=put(helper="ann"))
    remark = (asked | granted).stay(by=("{owner}", "{creator}"), emit="favour.remarked")
    begin = granted.to(doing, by="{grant.by}")
    lapse = granted.after("3s").to(doing)
    expire = asked.on_deadline.to(refused)
    got = doing.on_done.to(done, webhook="favour.done")
    broke = doing.on_error.to(refused)
    stop = any_live.to(stopped, by=("{owner}", "system"))


OWNED = (Favour, NewerFavour)
"""Charts with owners, for worlds in which end users try to reach instances of others."""
NEWER = (NewerErrand, NewerParcel)
"""Versions that are deployed while instances of the first version are live."""
