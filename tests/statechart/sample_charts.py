"""Charts to draw and export: small, large, computed, all shipped ones, random ones with hostile names."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel

import headway
from headway import Ask, Final, History, No, Parallel, Retry, State, Statechart, View, any_live, invariant
from headway.actions import assign, count, put, spawn, topic
from headway.codec import replace
from headway.statechart import model
from headway.statechart.chart import Chart
from headway.statechart.export import from_document, to_document
from tests.statechart.random_charts import random_model


class Verdict(BaseModel):
    """What a manager says."""

    comment: str = ""


class Claim(BaseModel):
    """What is known of a claim."""

    amount: int = 0
    receipt: str | None = None


def has_receipt(view: View) -> bool | No:
    """A guard."""
    return True if view.context.get("receipt") else No("attach a receipt first")


def patience(_view: View) -> int:
    """A delay."""
    return 60_000


def summary(view: View) -> dict[str, Any]:
    """The content of a message."""
    return {"amount": view.context.get("amount")}


def parts(_view: View) -> list[dict[str, Any]]:
    """Contexts of children."""
    return []


class Expense(
    Statechart, version=2, context=Claim, facts=("budget",), staff={"manager": 2}, cancel="withdraw"
):
    """An expense claim, from draft to payment."""

    draft = State(initial=True, meaning="being written", waits_for="the employee")
    review = State(ask=Ask("manager", form=Verdict, deadline="2d", remind="1d"))
    paying = State(run="pay", retry=Retry(times=5, base="2s", jitter=0.3), timeout="60s", errors="declined")
    paid, rejected, failed = Final(), Final(), Final()

    submit = draft.to(review, by="employee", when=(has_receipt, "amount > 0"), meaning="hand it in")
    forget = draft.after(patience).to(failed)
    comment = review.stay(by="manager", takes=Verdict, do=count("comments"))
    approve = review.to(
        paying, by="manager", distinct_from="submit", no_agent=True, emit=topic("ok", data=summary)
    )
    reject = review.to(rejected, by="manager", do=(put(open=False), assign(why="_event.data.comment")))
    expire = review.on_deadline.to(rejected)
    done = paying.on_done.to(paid, webhook="expense.paid", do=spawn("Receipt", parts))
    declined = paying.on_error("declined").to(rejected)
    broken = paying.on_error.to(failed)
    withdraw = any_live.to(failed, by="employee", but=(paying,))

    @invariant("a claim is never negative")
    def positive(view: View) -> bool:  # noqa: N805 - the class body reads it as a function
        """The promise."""
        return bool(view.context.get("amount", 0) >= 0)


class Status(Statechart, computed="first"):
    """A status that follows from timestamps."""

    ended = Final(where="ended_at != null")
    running = State(where="started_at != null")
    waiting = State(where="true")

    begin = waiting.computes(running, sets="started_at")
    end = running.computes(ended, sets="ended_at")
    reset = running.computes(waiting, clears="started_at")


class Order(Statechart, version=3):
    """Forty states: nested, parallel, with history, asks, work and timers."""

    created = State(initial=True)
    queued = State(waits_for="a free worker")
    preparing = State(run="prepare", retry=Retry(3), timeout="60s", progress=(0, 10))
    routing = State(run="route", retry=Retry(3), timeout="2m", progress=(10, 20))
    pricing = State(run="price", timeout="2m", progress=(20, 25))
    page = State(run="fill", retry=Retry(2))
    mending = State(run="mend")
    filled = Final()
    filling = State(page, mending, filled, progress=(25, 65))
    packing = State(run="pack", progress=(65, 75))
    weighing = State(run="weigh")
    reviewing = State(ask=Ask("owner", form=Verdict, deadline="1h", remind="30m"))
    sending = State(run="send", timeout="60s", progress=(85, 95))
    verifying = State(run="verify", retry=Retry(3), progress=(95, 100))
    back = History(deep=True)
    working = State(
        preparing, routing, pricing, filling, packing, weighing, reviewing, sending, verifying, back
    )
    address, login, stock = (State(ask=Ask("owner", deadline="15m")) for _ in range(3))
    waiting_human = State(address, login, stock, waits_for="a person")
    camera_idle, filming, camera_broken = State(), State(run="film"), State()
    camera = State(camera_idle, filming, camera_broken)
    metering, over_budget = State(waits_for="costs"), State()
    budget = State(metering, over_budget)
    beating, late, lost = State(), State(), State()
    heartbeat = State(beating, late, lost)
    active = Parallel(working, camera, budget, heartbeat)
    binding, storing, telling, archived = State(run="bind"), State(run="store"), State(run="tell"), Final()
    archiving = State(binding, storing, telling, archived)
    opened, judged, granted = State(), State(ask=Ask("support", deadline="3d")), Final()
    appeal = State(opened, judged, granted)
    completed, failed, cancelled = Final(), Final(), Final()

    dispatch = created.to(queued, when=has_receipt, emit="order.queued")
    take = queued.to(active, by="worker", sets="started_at")
    nobody = queued.after("5m").to(failed, do=put(error="E_QUEUE"))
    prepared = preparing.on_done.to(routing)
    unprepared = preparing.on_error("ROOM").to(appeal)
    routed = routing.on_done.to(pricing)
    priced = pricing.on_done.to(filling)
    page_done = page.on_done.to(filled)
    page_wrong = page.on_error.to(mending)
    mended = mending.on_done.to(page)
    filled_all = filling.on_done.to(packing)
    look = packing.on_done.to(reviewing, when="mode == 'careful'")
    go_on = packing.on_done.to(weighing, when="mode == 'quick'")
    weighed = weighing.on_done.to(sending)
    too_heavy = weighing.on_error.to(reviewing)
    approve = reviewing.to(sending, by=("owner", "support"), no_agent=True)
    correct = reviewing.to(filling, by="owner", takes=Verdict)
    note = reviewing.stay(by="owner", counts="notes")
    too_late = reviewing.on_deadline.to(failed)
    sent = sending.on_done.to(verifying)
    invalid = sending.on_error("INVALID").to(filling)
    verified = verifying.on_done.to(archiving, webhook="order.verified")
    unverified = verifying.on_error.to(appeal)
    need_address = working.to(address)
    need_login = working.to(login)
    need_stock = working.to(stock)
    resume = waiting_human.to(back, by="owner")
    human_late = waiting_human.after("2h").to(failed)
    film = camera_idle.to(filming)
    filmed = filming.on_done.to(camera_idle)
    no_film = filming.on_error.to(camera_broken)
    spent = metering.to(over_budget, when="costs > 10")
    stop = over_budget.always.to(failed)
    missed = beating.after("30s").to(late)
    beat = late.to(beating)
    gone = late.after("60s").to(lost)
    bound = binding.on_done.to(storing)
    stored = storing.on_done.to(telling)
    told = telling.on_done.to(archived)
    all_done = archiving.on_done.to(completed, emit="order.completed")
    open_appeal = opened.to(judged, by="owner")
    grant = judged.to(granted, by="support", distinct_from="open_appeal")
    refuse = judged.to(failed, by="support")
    retried = appeal.on_done.to(queued, counts="appeals")
    appeal_late = appeal.after("14d").to(failed)
    restart = active.to(active, by="admin")
    skip = filling.to(mending, by="admin")
    over = mending.to(filling, by="admin")
    cancel = any_live.to(cancelled, by=("owner", "admin"), emit="order.cancelled")
    wall = any_live.to(failed, event="wall_clock", do=put(error="TIMEOUT"))


def shipped() -> Iterator[Chart]:
    """The charts of all lifecycles in the package."""
    for path in sorted(Path(headway.__file__).parent.glob("lifecycles/*/chart.py")):
        module = importlib.import_module(f"headway.lifecycles.{path.parent.name}.chart")
        found = [value for value in vars(module).values() if isinstance(value, type)]
        yield from (each.chart for each in found if issubclass(each, Statechart) and each is not Statechart)


CHARTS = {chart.name: chart for chart in (Expense.chart, Status.chart, Order.chart, *shipped())}

HOSTILE = (
    '"quoted"',
    "<b>&amp<i>",
    "<<fork>>",
    "[[choice]]",
    "}{%%",
    "\\N\\",
    "#35:--",
    "end",
    "State",
    "__proto__",
    "direction",
    "naïve状態🚀",
    "\u202egnol",
    "\x00\x1b",
    "a" * 150,
    "`_~$",
)
texts = st.one_of(
    st.sampled_from([*HOSTILE, "direction LR", "a; b\nc: d", "a | b", "--> [*]"]), st.text(max_size=12)
)


def renamed(whole: model.Model, names: dict[str, str]) -> model.Model:
    """The model with other names for its states."""
    states = tuple(
        replace(
            state,
            id=names[state.id],
            parent=names.get(state.parent or ""),
            initial=tuple(names[name] for name in state.initial),
        )
        for state in whole.states
    )
    rows = tuple(
        replace(
            row,
            source=names.get(row.source, row.source),
            targets=tuple(names[name] for name in row.targets),
            excludes=tuple(names[name] for name in row.excludes),
        )
        for row in whole.transitions
    )
    initial = tuple(names[name] for name in whole.initial)
    return replace(whole, states=states, transitions=rows, initial=initial)


@st.composite
def models(draw: st.DrawFn) -> model.Model:
    """A random tree of states with random arrows; some names, meanings, guards and roles are hostile."""
    whole = random_model(Random(draw(st.integers(0, 2**32))))
    hostile = draw(st.permutations(HOSTILE))
    names = {state.id: state.id for state in whole.states}
    names |= dict(zip(draw(st.permutations(list(names)))[:4], hostile, strict=False))
    whole = renamed(replace(whole, dialect="scxml"), names)
    text = draw(texts)
    name = text.lstrip("{@") or "h"  # a role that begins with them is an entry for people
    ask, run = (
        model.Ask(roles=(name,), deadline=5),
        model.Run(handler=name, retry=(model.Retry(times=None),)),
    )
    busy = {"atomic": {"ask": ask, "run": run, "meaning": text, "waits_for": text}}
    states = tuple(replace(state, **busy.get(state.kind, {})) for state in whole.states)
    rows = tuple(
        replace(row, by=(name,), meaning=text) if draw(st.booleans()) else row for row in whole.transitions
    )
    return replace(whole, states=states, transitions=rows, meaning=text)


charts = models().map(lambda whole: from_document(to_document(Chart(whole))))
