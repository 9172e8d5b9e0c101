"""Upgrades of what a database holds: rehearsed, applied beside others who send, interrupted, taken back."""

import asyncio
from datetime import timedelta

import pytest

from headway import Ask, Event, Final, State, Statechart, Upgrade, any_live
from headway.actions import spawn
from headway.engine.upgrade.rehearsal import rehearse
from headway.engine.upgrade.upgrade import undo, upgrade
from headway.errors import ChartChangedError, StoreUnavailableError, UnknownChartError, UpgradeError
from headway.statechart.snapshot import claim_ask, person, work_done
from headway.store.queries import AskQuery, Claim
from headway.store.rows import InstanceRow
from tests.upgrade.lives import ANN, BOB, Expense, Renamed, Trap, Unruly
from tests.upgrade.world import Played, T, World, counts, went

pytestmark = pytest.mark.mission("ENG-19")


def test_a_rehearsal_classifies_everybody_and_changes_nothing(played: Played) -> None:
    """All tenants, page by page; the version is not even stored."""

    async def scenario(world: World) -> None:
        await world.fill()
        await world.fill(3, "other")
        good = await world.rehearsal(Renamed)
        assert (good.ok, good.instances, counts(good)) == (True, 12, {"mapped": 12})
        assert good.changes["review → check"].count == 4
        assert (good.lines, good.history) == (12, {})
        bad = await world.rehearsal(Unruly)
        assert (bad.ok, counts(bad)) == (False, {"mapped": 4, "rule": 8})
        assert bad.history["would be refused: approve in review"].count == 4
        assert bad.history["would lead elsewhere: submit in draft"].count == 8
        trapped = await world.rehearsal(Trap, replay=False)
        assert counts(trapped) == {"stranded": 4, "rule": 8}
        async with world.engine(Expense) as engine:
            assert [row.version for row in await engine.store.charts.all()] == [1]
            assert {row.version for row in await engine.store.instances.living("Expense", ("", ""), 100)} == {
                1
            }

    played(scenario)


def test_an_upgrade_brings_everything_along(played: Played) -> None:
    """Rows of timers, asks and work follow, the inbox is by the new roles, and life goes on."""

    async def scenario(world: World) -> None:
        await world.fill()
        begun = world.clock.now()
        world.clock.advance("5h")
        async with world.engine(Renamed) as engine:
            operator = person("op")
            done = await upgrade(engine, "Expense", 2, by=operator, reason="new rules")
            assert (done.done, done.passed, done.ok) == (9, 0, True)
            [line] = (await engine.history(T, "e1"))[-1:]
            assert (line.event, line.before, line.after) == ("chart.upgrade", "review", "check")
            assert (line.actor, line.reason) == ("op", "new rules")
            inbox = await engine.store.asks.page(AskQuery(tenant=T, roles=("auditor",)))
            assert [ask.instance for ask in inbox] == ["e1", "e4", "e7"]
            assert {(ask.state, ask.deadline, ask.opened_at) for ask in inbox} == {
                ("check", begun + timedelta(days=3), begun)
            }
            [item, *_] = await engine.store.work.claim(Claim("w", ("default",), 1, engine.charts.versions))
            await went(engine.send(T, item.instance, work_done(item.id, item.attempt)))
            await went(engine.send(T, "e1", Event("approve", by=BOB)))
            assert len(await engine.store.asks.page(AskQuery(tenant=T, roles=("auditor",)))) == 2
            world.clock.advance("20d")
            due = await engine.store.timers.due(100, engine.charts.versions)
            assert {timer.event for timer in due} >= {"after.draft.stale", "deadline.check"}
            born = await went(engine.create(T, "new", "Expense"))
            assert born.version == 2

    played(scenario)


def test_whom_a_question_is_no_longer_for_does_not_see_it_any_more(played: Played) -> None:
    """The lists of those who were asked before are without it, also when it is held."""

    class Others(Statechart, name="Expense", version=2):
        draft = State(initial=True)
        review = State(ask=Ask("auditor", deadline="2d"))
        paying = State(run="pay")
        rejected = Final()
        submit = draft.to(review, by="employee")
        refuse = review.to(rejected)
        expire = review.on_deadline.to(rejected)
        end = (paying.on_done.to(rejected)) | paying.on_error.to(rejected)
        leave = any_live.to(rejected, by="employee")

    async def scenario(world: World) -> None:
        await world.fill(3)
        async with world.engine(Expense, Others) as engine:
            assert (await upgrade(engine, "Expense", 2)).ok
            assert not await engine.store.asks.page(AskQuery(tenant=T, roles=("manager",)))
            [ask] = await engine.store.asks.page(AskQuery(tenant=T, roles=("auditor",)))
            assert (ask.instance, ask.answers) == ("e1", ("refuse",))

    played(scenario)


def test_a_claim_and_an_upgrade_in_one_transaction_both_hold(played: Played) -> None:
    """Whoever claimed the question just before has it under the new roles."""

    async def scenario(world: World) -> None:
        await world.fill(3)
        async with world.engine(Expense, Renamed) as engine:
            ask = (await engine.get(T, "e1")).asks["review"].id
            claim = claim_ask(ask, timedelta(hours=1), BOB)
            claimed, upgraded = await asyncio.gather(
                went(engine.send(T, "e1", claim)), went(engine.upgrade(T, "e1", 2))
            )
            assert (claimed.version, upgraded.version) == (1, 2)
            row = await engine.store.asks.get((T, ask))
            assert row is not None
            assert (row.claimed_by, row.roles, row.state) == ("bob", ("manager", "auditor"), "check")
            assert len(await engine.store.asks.page(AskQuery(tenant=T, roles=("auditor",)))) == 1

    played(scenario)


def test_four_eyes_are_taken_from_the_history(played: Played) -> None:
    """Whoever submitted before the upgrade cannot approve after it."""

    async def scenario(world: World) -> None:
        both = person("ann", "employee", "manager")
        async with world.engine(Expense) as engine:
            await went(engine.create(T, "own", "Expense"))
            await went(engine.send(T, "own", Event("submit", by=both)))
        async with world.engine(Renamed) as engine:
            await upgrade(engine, "Expense", 2)
            refused = await engine.send(T, "own", Event("approve", by=both))
            assert getattr(refused, "code", None) == "duty"
            await went(engine.send(T, "own", Event("approve", by=BOB)))

    played(scenario)


def test_a_send_during_an_upgrade_is_never_lost(played: Played) -> None:
    """Each event meets the instance before or after its upgrade, and history shows both."""

    async def scenario(world: World) -> None:
        await world.fill(60)
        async with world.engine(Expense, Renamed) as engine, world.engine(Expense, Renamed) as other:
            sends = [
                went(other.send(T, f"e{number}", Event("withdraw", by=ANN))) for number in range(0, 60, 2)
            ]
            under_way = asyncio.create_task(upgrade(engine, "Expense", 2))
            receipts = await asyncio.gather(*sends)
            assert (await under_way).ok
            assert all(receipt.ended for receipt in receipts)
            for number in range(60):
                lines = await engine.history(T, f"e{number}")
                events = [line.event for line in lines]
                assert ("withdraw" in events) == (number % 2 == 0)
                assert [line.seq for line in lines] == [*range(1, len(lines) + 1)]
                row = await engine.row(T, f"e{number}")
                assert row.version == 2 or row.ended
                assert events.count("chart.upgrade") == (row.version == 2)

    played(scenario)


def test_an_upgrade_that_was_interrupted_goes_on(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is upgraded stays so, nothing is upgraded twice, and the second run does the rest."""
    monkeypatch.setattr("headway.engine.upgrade.versions.PAGE", 4)

    async def scenario(world: World) -> None:
        await world.fill(12)

        def fall_over(seen: int) -> None:
            if seen >= 8:
                raise StoreUnavailableError("gone")

        async with world.engine(Renamed) as engine:
            with pytest.raises(StoreUnavailableError):
                await upgrade(engine, "Expense", 2, progress=fall_over)
        async with world.engine(Expense, Renamed) as engine:
            rows = await engine.store.instances.living("Expense", ("", ""), 100)
            assert sorted(row.version for row in rows) == [1] * 4 + [2] * 8
            await went(engine.send(T, "e0", Event("withdraw", by=ANN)))
            left = await rehearse(engine, "Expense", 2)
            assert left.instances + left.already == 11
            again = await upgrade(engine, "Expense", 2)
            assert again.done == left.instances
            lines = [await engine.history(T, row.id) for row in rows]
            assert max(sum(line.event == "chart.upgrade" for line in each) for each in lines) == 1

    played(scenario)


def test_an_upgrade_is_taken_back_for_those_that_have_not_moved(played: Played) -> None:
    """Snapshots, timers and asks are as they were; who has moved since goes on under the new version."""

    async def scenario(world: World) -> None:
        await world.fill()
        async with world.engine(Expense) as engine:
            before = {row.id: row for row in await engine.store.instances.living("Expense", ("", ""), 100)}
            asked = await engine.store.asks.page(AskQuery(tenant=T, roles=("manager",)))
        async with world.engine(Renamed) as engine:
            await upgrade(engine, "Expense", 2)
            await went(engine.send(T, "e1", Event("approve", by=BOB)))
            await went(engine.create(T, "new", "Expense"))
            back = await undo(engine, "Expense", 2, by=person("op"), reason="too early")
            assert (back.done, back.passed, back.ok) == (8, 2, True)
            assert (await undo(engine, "Expense", 2)).done == 0
        async with world.engine(Expense, Renamed) as engine:
            after = {row.id: row for row in await engine.store.instances.living("Expense", ("", ""), 100)}
            assert after["e1"].version == after["new"].version == 2
            for name in before.keys() - {"e1"}:
                assert settled(after[name]) == settled(before[name])
                [line] = (await engine.history(T, name))[-1:]
                assert (line.event, line.actor, line.reason) == ("chart.undo", "op", "too early")
            again = await engine.store.asks.page(AskQuery(tenant=T, roles=("manager",)))
            assert [*again] == [ask for ask in asked if ask.instance != "e1"]
            assert not await engine.store.asks.page(AskQuery(tenant=T, roles=("auditor",)))
            await went(engine.send(T, "e4", Event("approve", by=BOB)))
            assert (await upgrade(engine, "Expense", 2)).done == 8

    played(scenario)


def settled(row: InstanceRow) -> tuple[object, ...]:
    """What of a row an undo restores."""
    return row.version, row.status, row.snapshot.replace(f'"seq":{row.seq}', '"seq":0')


def test_who_cannot_be_upgraded_stays_as_it_is(played: Played) -> None:
    """The others are upgraded, and the report says why it was left."""

    async def scenario(world: World) -> None:
        await world.fill(3)
        async with world.engine(Expense, Unruly) as engine:
            done = await upgrade(engine, "Expense", 2)
            assert (done.done, done.failed, done.ok) == (1, 2, False)
            assert {name for name, _ in done.failures} == {"acme/e1", "acme/e2"}
            assert (await engine.row(T, "e1")).version == 1
            await went(engine.send(T, "e1", Event("approve", by=BOB)))
            with pytest.raises(UpgradeError, match="restarts"):
                await engine.upgrade(T, "e1", 2)

    played(scenario)


def test_a_parent_counts_its_children_by_their_new_status(played: Played) -> None:
    """A child's new name for its status reaches the parent in the same transaction."""

    class Parent(Statechart):
        gathering, over = State(initial=True), Final()
        add = gathering.stay(do=spawn("Child"))
        end = gathering.on("child.changed").to(over, when="children.waiting == 2")

    class Child(Statechart):
        open_, closed = State(initial=True), Final()
        close = open_.to(closed)

    class NewChild(Statechart, name="Child", version=2, upgrades={1: Upgrade(states={"open_": "waiting"})}):
        waiting, closed = State(initial=True), Final()
        close = waiting.to(closed)

    async def scenario(world: World) -> None:
        async with world.engine(Parent, Child) as engine:
            await went(engine.create(T, "p", "Parent"))
            for _ in range(2):
                await went(engine.send(T, "p", Event("add")))
        async with world.engine(Parent, Child, NewChild) as engine:
            assert (await upgrade(engine, "Child", 2)).done == 2
            parent = await engine.get(T, "p")
            assert parent.children == {"waiting": 2}
            assert parent.ended

    played(scenario)


def test_a_version_that_is_stored_otherwise_is_refused(played: Played) -> None:
    """Nobody upgrades to a chart that is not the one the database knows under that version."""

    async def scenario(world: World) -> None:
        await world.fill(1)
        async with world.engine(Renamed):
            pass
        with pytest.raises(ChartChangedError):
            await world.rehearsal(Unruly)
        async with world.engine(Expense) as engine:
            with pytest.raises(UnknownChartError):
                await upgrade(engine, "Expense", 2)

    played(scenario)
