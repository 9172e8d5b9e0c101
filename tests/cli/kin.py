"""A family of charts, and what its children may become."""

from headway import Final, State, Statechart, Upgrade
from headway.actions import spawn


class Parent(Statechart):
    """Has children, and waits for one that is closed."""

    gathering, over = State(initial=True), Final()
    add = gathering.stay(do=spawn("Child"))
    end = gathering.on("child.changed").to(over, when="children.closed == 9")


class Child(Statechart):
    """Open, until it is closed."""

    open_, closed = State(initial=True), Final()
    close = open_.to(closed)


class Renamed(Statechart, name="Child", version=2, upgrades={1: Upgrade(states={"open_": "waiting"})}):
    """Has another status while it is open."""

    waiting, closed = State(initial=True), Final()
    close = waiting.to(closed)


class Finished(Statechart, name="Child", version=2):
    """Ends in another status than its parent waits for."""

    open_, finished = State(initial=True), Final()
    close = open_.to(finished)


ALL = [Parent, Child]
