"""A new version of the children, in a module that does not know their parent."""

from headway import Final, State, Statechart, Upgrade


class Child(Statechart, version=2, upgrades={1: Upgrade(states={"open_": "waiting"})}):
    """Has another status while it is open."""

    waiting, closed = State(initial=True), Final()
    close = waiting.to(closed)
