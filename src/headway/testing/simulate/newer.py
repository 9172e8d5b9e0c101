"""What the lives of a bit of everything become: states, times, people and work that are not as they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headway.actions import add, put, record, spawn, tell
from headway.statechart.authoring.declarations import Ask, Run, Upgrade
from headway.statechart.authoring.statechart import Statechart
from headway.statechart.authoring.states import Final, State, any_live
from headway.statechart.snapshot import Snapshot
from headway.testing.simulate import charts


def noted(old: Snapshot) -> Mapping[str, Any]:
    """What was only known when somebody had noted something."""
    return {"noted": bool(old.context.get("noted"))}


CHANGES = Upgrade(
    states={"resting": "pausing"},
    renames={"rested": "paused"},
    context=noted,
    restarts=("fetching", "bringing"),
)


class Errand(
    Statechart, version=2, owner="{user}", cancel="stop", facts=(charts.MINE,), upgrades={1: CHANGES}
):
    """Has more time to be approved, by more people, and rests longer under another name."""

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
        run=Run("fetch", timeout="4s", lease="3s", heartbeat="1s", retry=charts.QUICK, errors=("broken",)),
        progress=(0, 50),
    )
    pausing = State()
    bringing = State(
        run=Run("carry", lease="3s", heartbeat="1s", retry=charts.QUICK, concurrency="bring:{user}"),
        progress=(50, 100),
    )
    done, refused, failed, stopped = Final(), Final(), Final(), Final()

    approve = asked.to(
        fetching,
        by=("clerk", "chief", "auditor"),
        when=charts.few_enough,
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


class Parcel(Statechart, version=2, cancel="stop", upgrades={1: Upgrade(states={"waiting": "ready"})}):
    """Is ready under another name, of which its order hears, and for a shorter while."""

    packing = State(
        initial=True,
        entry=charts.WEIGH,
        run=Run("pack", timeout="3s", lease="2s", heartbeat="700ms", retry=charts.QUICK),
    )
    ready = State()
    sent, lost, stopped = Final(), Final(), Final()

    packed = packing.on_done.to(ready, emit="parcel.packed", do=(tell("parent", "packed"), charts.MEND))
    torn = packing.on_error.to(lost, counts="errors", webhook="parcel.lost")
    ship = ready.to(sent, webhook="parcel.sent")
    tired = ready.after("3s").to(sent, emit="parcel.sent")
    split = packing.stay(by="clerk", do=spawn("Parcel", weight=1))
    repack = ready.to(packing, by="clerk")
    dent = (packing | ready).stay(by="clerk", counts="errors")
    mend = (packing | ready).stay(by="clerk", do=charts.MEND, emit="parcel.mended")
    stop = any_live.to(stopped)


NEWER = (Errand, Parcel)
"""What comes while instances of the first version live."""
