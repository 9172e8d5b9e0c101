"""Upgrades of children and parents: what the one hears of the other, and what follows by itself."""

import asyncio
from typing import Any

import pytest

from headway import Event, Final, State, Statechart, Step, Upgrade, View, any_live, start
from headway.actions import add, spawn
from headway.codec import from_data
from headway.engine.orders import Answer
from headway.engine.upgrade.rehearsal import rehearse
from headway.engine.upgrade.upgrade import undo, upgrade
from headway.statechart.chart import Charted
from headway.statechart.effects import ReportToParent
from headway.statechart.upgrade.instance import UpgradeRecord, restore_snapshot, upgrade_snapshot
from headway.store.unit import Changes, Found, Reads
from headway.testing import FakeClock
from tests.upgrade.world import Played, T, World, went

pytestmark = pytest.mark.mission("ENG-19", "ENG-12")


def fail(_view: View) -> None:
    """Something that goes wrong."""
    raise ValueError("tripped")


class Parent(Statechart):
    """Adds up the errors of its children."""

    gathering, over = State(initial=True), Final()
    add = gathering.stay(do=spawn("Child"))
    end = gathering.to(over)


class Together(Statechart, name="Parent", children="together"):
    """The same, for children that report together."""

    gathering, over = State(initial=True), Final()
    add = gathering.stay(do=spawn("Child"))
    end = gathering.to(over)


class Child(Statechart):
    """Open, until somebody closes it."""

    open_, closed = State(initial=True), Final()
    close = any_live.to(closed)


class Breaks(Statechart, name="Child", version=2):
    """Breaks by itself, which is counted as an error and in a counter of the tenant."""

    open_, bad, closed = State(initial=True), State(), Final()
    broke = open_.always.to(bad, counts="errors", do=add("broke"))
    close = any_live.to(closed)


class Errs(Statechart, name="Child", version=2, upgrades={1: Upgrade(states={"open_": "fine"})}):
    """Counts an error by itself, and its status stays what it is."""

    fine, wrong = State(initial=True), State()
    open_, closed = State(fine, wrong, initial=True), Final()
    broke = fine.always.to(wrong, counts="errors")
    close = any_live.to(closed)


class Nest(Statechart):
    """Holds others of its kind."""

    open_, closed = State(initial=True), Final()
    add = open_.stay(do=spawn("Nest"))
    close = any_live.to(closed)


class Fresh(Statechart, name="Nest", version=2, upgrades={1: Upgrade(states={"open_": "fresh"})}):
    """The same, with another status."""

    fresh, closed = State(initial=True), Final()
    add = fresh.stay(do=spawn("Nest"))
    close = any_live.to(closed)


class Broke:
    """A unit that only looks how often children broke."""

    count = 0

    def begin(self) -> Reads:
        """Ask for it."""
        return Reads(counters={(T, "broke")})

    def take(self, found: Found) -> None:
        """Keep it."""
        self.count = found.counters.get((T, "broke"), 0)

    def changes(self) -> Changes:
        """Nothing."""
        return Changes()


async def family(world: World, parent: Charted, children: int = 1) -> None:
    """A parent with children of the first version."""
    async with world.engine(parent, Child) as engine:
        await went(engine.create(T, "p", "Parent"))
        for _ in range(children):
            await went(engine.send(T, "p", Event("add")))


@pytest.mark.parametrize("parent", [Parent, Together], ids=["each", "together"])
@pytest.mark.parametrize(("child", "status"), [(Breaks, "bad"), (Errs, "open_")], ids=["status", "errors"])
def test_errors_that_an_upgrade_leads_to_reach_the_parent(
    played: Played, parent: Charted, child: Charted, status: str
) -> None:
    """A parent's sum of errors is that of its children, also when their status is the same as before."""

    async def scenario(world: World) -> None:
        await family(world, parent, 2)
        async with world.engine(parent, Child, child) as engine:
            assert (await upgrade(engine, "Child", 2)).done == 2
            above = await engine.get(T, "p")
            assert (above.children, above.counters) == ({status: 2}, {"errors": 2})

    played(scenario)


def test_an_undo_passes_over_who_has_moved_by_itself_in_the_upgrade(played: Played) -> None:
    """What followed has counted and gone out: taken back and upgraded again, it would do so twice."""

    async def scenario(world: World) -> None:
        await family(world, Parent)
        async with world.engine(Parent, Child, Breaks) as engine:
            assert (await upgrade(engine, "Child", 2)).done == 1
            back = await undo(engine, "Child", 2)
            assert (back.done, back.passed, back.ok) == (0, 1, True)
            assert (await upgrade(engine, "Child", 2)).done == 0
            child = await engine.get(T, "p:2:0")
            assert (child.version, child.states) == (2, ("bad",))
            look = Broke()
            await engine.store.run(look)
            assert look.count == 1

    played(scenario)


def test_a_child_is_upgraded_after_a_parent_whose_version_is_not_known(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again when those before it are done, by a program that knows the new version alone."""

    async def scenario(world: World) -> None:
        async with world.engine(Nest) as engine:
            await went(engine.create(T, "n", "Nest"))
            await went(engine.send(T, "n", Event("add")))
        async with world.engine(Fresh) as engine:
            tried, change = asyncio.Event(), engine.upgrade

            async def parent_last(tenant: str, instance: str, to: int, **options: Any) -> Answer:
                if instance == "n":
                    await tried.wait()
                try:
                    return await change(tenant, instance, to, **options)
                finally:
                    tried.set()

            monkeypatch.setattr(engine, "upgrade", parent_last)
            report = await upgrade(engine, "Nest", 2)
            assert (report.done, report.failures) == (2, [])
            assert (await engine.get(T, "n")).children == {"fresh": 1}

    played(scenario)


def test_a_child_that_is_brought_back_takes_its_errors_back() -> None:
    """Whoever restores an instance tells its parent the difference, with its sign."""
    clock = FakeClock()
    begun = start(Child, "p:1:0", now=clock.now(), parent="p").unwrap()
    assert isinstance(begun, Step)
    done = upgrade_snapshot(Child.chart, Errs.chart, begun.snapshot, clock.now())
    assert isinstance(done, Step)
    record = from_data(UpgradeRecord, done.history[0].data)
    back = restore_snapshot(Child.chart, Errs.chart, done.snapshot, clock.now(), record=record)
    told = [effect for step in (done, back) for effect in step.effects if isinstance(effect, ReportToParent)]
    assert [(each.before, each.after, each.errors) for each in told] == [
        ("open_", "open_", 1),
        ("open_", "open_", -1),
    ]


class Renamed(Statechart, name="Child", version=2, upgrades={1: Upgrade(states={"open_": "waiting"})}):
    """Has another status while it is open."""

    waiting, closed = State(initial=True), Final()
    close = any_live.to(closed)


class Finished(Statechart, name="Child", version=2):
    """Ends in another status."""

    open_, finished = State(initial=True), Final()
    close = any_live.to(finished)


class Spawner(Statechart, name="Child", version=2):
    """Has a child of its own by itself."""

    open_, busy, closed = State(initial=True), State(), Final()
    hand_on = open_.always.to(busy, do=spawn("Other"))
    close = any_live.to(closed)


class Other(Statechart):
    """A child's child."""

    open_, closed = State(initial=True), Final()
    close = open_.to(closed)


class Trips(Statechart, name="Parent"):
    """Cannot take that a child waits."""

    gathering, over = State(initial=True), Final()
    add = gathering.stay(do=spawn("Child"))
    end = gathering.on("child.changed").to(over, when="children.waiting > 0", do=fail)


class Counts(Statechart, name="Parent"):
    """Waits until a child is closed."""

    gathering, over = State(initial=True), Final()
    add = gathering.stay(do=spawn("Child"))
    end = gathering.on("child.changed").to(over, when="children.closed == 1")


class CountsBoth(Statechart, name="Parent", version=2):
    """Is ready for children of both versions."""

    gathering, over = State(initial=True), Final()
    add = gathering.stay(do=spawn("Child"))
    end = gathering.on("child.changed").to(over, when="children.closed + children.finished == 1")


@pytest.mark.parametrize(
    ("parent", "known", "child", "said"),
    [
        (Parent, [], Renamed, "its parent lives by Parent v1, which is not known here: register it"),
        (Parent, [Parent], Renamed, None),
        (Trips, [Trips], Renamed, "its parent, which lives by Parent v1, cannot take it"),
        (Parent, [Parent], Spawner, "it would spawn Other, which is not known here: register it"),
        (Parent, [Parent, Other], Spawner, None),
        (Counts, [Counts], Finished, "its parent lives by Parent v1, which counts children.closed"),
        (Counts, [], Finished, "its parent lives by Parent v1, which counts children.closed"),
        (CountsBoth, [CountsBoth], Finished, None),
    ],
)
def test_a_rehearsal_says_what_is_in_the_way_of_those_around(
    played: Played, *, parent: Charted, known: list[Charted], child: Charted, said: str | None
) -> None:
    """It foretells the upgrade: a parent that does not take it or would wait for ever, unknown charts."""

    async def scenario(world: World) -> None:
        await family(world, parent)
        async with world.engine(*known, child) as engine:
            proof = await rehearse(engine, "Child", 2)
            assert (proof.ok, proof.instances) == (said is None, 1)
            assert [problem.startswith(said or "") for problem in proof.problems] == [True] * (
                said is not None
            )
            if said is None or "counts" not in said:
                done = await upgrade(engine, "Child", 2)
                assert (done.done, done.failed) == ((1, 0) if said is None else (0, 1))

    played(scenario)


def test_a_parent_that_has_ended_is_in_nobodys_way(played: Played) -> None:
    """Nobody hears a report, and nobody waits for it."""

    async def scenario(world: World) -> None:
        await family(world, Counts)
        async with world.engine(Counts, Child) as engine:
            await went(engine.send(T, "p", Event("add")))
            await went(engine.send(T, "p:2:0", Event("close")))
            assert (await engine.get(T, "p")).ended
        proof = await world.rehearsal(Finished)
        assert (proof.ok, proof.instances) == (True, 1)

    played(scenario)
