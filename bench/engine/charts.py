"""The charts of the engine suite: each as small as its case allows."""

from headway import Event, Final, State, Statechart
from headway.actions import spawn

TENANT = "bench"
GO = Event("go")


class Ring(Statechart):
    """Goes back and forth, and tells the world each time."""

    here, there = State(initial=True), State()
    go = here.to(there, emit="ring.moved")
    back = there.to(here, event="go", emit="ring.moved")


class Sleeper(Statechart):
    """Sleeps until its timer is due; who goes by may touch it."""

    asleep, awake = State(initial=True), State()
    go = asleep.stay(emit="sleeper.touched")
    wake = asleep.after("30d").to(awake, emit="sleeper.woken")


class Errand(Statechart):
    """Work that a worker does, and no more."""

    doing, done = State(initial=True, run="no_op"), Final()
    finish = doing.on_done.to(done, emit="errand.done")


class Member(Statechart):
    """A child that is in or out; its parent hears of each change."""

    inside, outside = State(initial=True), State()
    go = inside.to(outside, emit="member.moved")
    back = outside.to(inside, event="go", emit="member.moved")


class Family(Statechart):
    """A parent that keeps count of its children."""

    together = State(initial=True)
    go = together.stay(do=spawn("Member"))


CHARTS = (Ring, Sleeper, Errand, Member, Family)
