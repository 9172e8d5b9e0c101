"""One upgrade after the other: what was done under older names is known by those of today."""

import pytest

from headway import Ask, Event, Final, Run, State, Statechart, Upgrade, any_live, person
from headway.engine.upgrade.activity import activity_of
from headway.engine.upgrade.rehearsal import rehearse
from headway.engine.upgrade.upgrade import undo, upgrade
from headway.engine.upgrade.versions import Versions
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import delegate_ask, work_done
from headway.statechart.upgrade.diff import differences
from headway.statechart.upgrade.renaming import Renaming
from tests.upgrade.world import Played, T, World, went

pytestmark = pytest.mark.mission("ENG-19")

BOTH = person("ann", "employee", "manager")


class First(Statechart, name="Claim"):
    """Submitted, then reviewed."""

    draft, review = State(initial=True), State()
    paid = Final()
    submit = draft.to(review, by="employee")
    approve = review.to(paid, by="manager")


class Second(
    Statechart,
    name="Claim",
    version=2,
    upgrades={1: Upgrade(states={"review": "check"}, renames={"submit": "hand_in"})},
):
    """The same by other names."""

    draft, check = State(initial=True), State()
    paid = Final()
    hand_in = draft.to(check, by="employee")
    approve = check.to(paid, by="manager")


class Third(Statechart, name="Claim", version=3):
    """Who has handed it in may not approve it."""

    draft, check = State(initial=True), State()
    paid = Final()
    hand_in = draft.to(check, by="employee")
    approve = check.to(paid, by="manager", distinct_from="hand_in")


@pytest.mark.parametrize("wavers", [False, True], ids=["straight", "taken back once"])
def test_four_eyes_hold_after_two_upgrades(played: Played, *, wavers: bool) -> None:
    """Who acted under the first names is known by the last, and the history fits the newest chart."""

    async def scenario(world: World) -> None:
        async with world.engine(First) as engine:
            await went(engine.create(T, "it", "Claim"))
            await went(engine.send(T, "it", Event("submit", by=BOTH)))
        async with world.engine(First, Second) as engine:
            assert (await upgrade(engine, "Claim", 2)).done == 1
            if wavers:
                assert (await undo(engine, "Claim", 2)).done == 1
                assert (await upgrade(engine, "Claim", 2)).done == 1
        async with world.engine(Second, Third) as engine:
            proof = await rehearse(engine, "Claim", 3)
            assert (proof.ok, proof.lines, proof.history) == (True, 1, {})
            assert "duties: who acted is known by the new names" in proof.changes
            assert (await upgrade(engine, "Claim", 3)).done == 1
            assert (await engine.get(T, "it")).acted == {"hand_in": ("ann",)}
            answer = await engine.send(T, "it", Event("approve", by=BOTH))
            assert isinstance(answer, Refusal)
            assert answer.code == "duty"

    played(scenario)


def test_what_an_older_line_would_meet_is_told_by_the_names_of_today(played: Played) -> None:
    """A step that the newest chart has no more is told once, as it is called now."""

    class Fourth(Statechart, name="Claim", version=3):
        draft, check = State(initial=True), State()
        paid = Final()
        begin = draft.to(check, by="employee")
        approve = check.to(paid, by="manager")

    async def scenario(world: World) -> None:
        async with world.engine(First) as engine:
            await went(engine.create(T, "it", "Claim"))
            await went(engine.send(T, "it", Event("submit", by=BOTH)))
        async with world.engine(First, Second) as engine:
            assert (await upgrade(engine, "Claim", 2)).done == 1
        async with world.engine(Second, Fourth) as engine:
            proof = await rehearse(engine, "Claim", 3)
            assert {kind: tally.count for kind, tally in proof.history.items()} == {
                "would be refused: hand_in in draft": 1
            }

    played(scenario)


def test_an_answer_is_known_by_the_new_name_of_its_question(played: Played) -> None:
    """Four eyes that look at an answer follow the state whose question it answers."""

    class Asks(Statechart, name="Claim"):
        look = State(initial=True, ask=Ask("manager", deadline="9d"))
        wait, paid = State(), Final()
        seen = look.on_answer.to(wait) | look.on_deadline.to(wait)
        pay = wait.to(paid, by="manager")

    class Renamed(Statechart, name="Claim", version=2, upgrades={1: Upgrade(states={"look": "view"})}):
        view = State(initial=True, ask=Ask("manager", deadline="9d"))
        wait, paid = State(), Final()
        seen = view.on_answer.to(wait) | view.on_deadline.to(wait)
        pay = wait.to(paid, by="manager", distinct_from="answer.view")

    class Again(Statechart, name="Claim", version=3, upgrades={2: Upgrade(states={"view": "read"})}):
        read = State(initial=True, ask=Ask("manager", deadline="9d"))
        wait, paid = State(), Final()
        seen = read.on_answer.to(wait) | read.on_deadline.to(wait)
        pay = wait.to(paid, by="manager", distinct_from="answer.read")

    async def scenario(world: World) -> None:
        async with world.engine(Asks) as engine:
            await went(engine.create(T, "it", "Claim"))
            [ask] = (await engine.get(T, "it")).asks.values()
            await went(engine.send(T, "it", Event("answer", by=BOTH, ref=ask.id)))
        async with world.engine(Renamed, Again) as engine:
            assert (await upgrade(engine, "Claim", 2)).done == 1
            assert (await engine.get(T, "it")).acted == {"answer.view": ("ann",)}
            assert (await upgrade(engine, "Claim", 3)).done == 1
            assert (await engine.get(T, "it")).acted == {"answer.read": ("ann",)}

    played(scenario)


class Works(Statechart, name="Job"):
    """Its states are called like words of the engine's events."""

    work = State(initial=True, run=Run("do"))
    after, done = State(), State()
    over = Final()
    end = work.on_done.to(after)
    error = work.on_error.to(over)
    go = after.after("1h").to(done)
    order_after = any_live.on("order.after").to(over)


class Runs(
    Statechart,
    name="Job",
    version=2,
    upgrades={1: Upgrade(states={"work": "job", "after": "rest", "done": "made"}, renames={"go": "went"})},
):
    """The same, called otherwise."""

    job = State(initial=True, run=Run("do"))
    rest, made = State(), State()
    over = Final()
    end = job.on_done.to(rest)
    error = job.on_error.to(over)
    went = rest.after("1h").to(made)
    order_after = any_live.on("order.after").to(over)


@pytest.mark.parametrize(
    ("event", "now"),
    [
        ("done.work.work", "done.work.job"),
        ("done.state.done", "done.state.made"),
        ("error.work.work.after", "error.work.job.after"),
        ("after.after.go", "after.rest.went"),
        ("after.after.go-2", "after.rest.went-2"),
        ("after.life.go", "after.life.went"),
        ("deadline.work", "deadline.job"),
        ("order.after", "order.after"),
        ("go", "went"),
        ("child.changed", "child.changed"),
    ],
)
def test_only_the_state_and_the_timer_in_an_event_of_the_engine_are_renamed(event: str, now: str) -> None:
    """A state may be called like a word that the engine's events begin with."""
    assert Renaming(Works.chart, Runs.chart).event(event) == now


def test_names_like_those_of_the_engine_are_no_difference(played: Played) -> None:
    """What is declared is told, and nothing else; a history of such names fits."""
    changes = differences(Works.chart, Runs.chart)
    assert {(each.subject, each.change, each.name) for each in changes} == {
        ("state", "renamed", "work"),
        ("state", "renamed", "after"),
        ("state", "renamed", "done"),
        ("transition", "renamed", "go"),
    }

    async def scenario(world: World) -> None:
        async with world.engine(Works) as engine:
            await went(engine.create(T, "it", "Job"))
            [work] = (await engine.get(T, "it")).work.values()
            await went(engine.send(T, "it", work_done(work.id, work.attempt)))
        proof = await world.rehearsal(Runs)
        assert (proof.ok, proof.lines, proof.history) == (True, 1, {})

    played(scenario)


def test_what_is_kept_of_a_history_does_not_grow_with_it(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rehearsal reads page by page, and keeps of each kind of step how often it was taken."""
    monkeypatch.setattr("headway.engine.upgrade.versions.LINES", 7)

    class Lamp(Statechart):
        off, on = State(initial=True), State()
        broken = Final()
        switch = off.to(on) | on.to(off)
        drop = any_live.to(broken)

    class Bulb(Statechart, name="Lamp", version=2, upgrades={1: Upgrade(renames={"switch": "turn"})}):
        off, on = State(initial=True), State()
        broken = Final()
        turn = off.to(on)
        drop = any_live.to(broken)

    async def scenario(world: World) -> None:
        async with world.engine(Lamp) as engine:
            await went(engine.create(T, "it", "Lamp"))
            for _ in range(20):
                await went(engine.send(T, "it", Event("switch")))
            past = await activity_of(engine.store, (T, "it"), Versions(engine, Lamp.chart))
            assert (past.turns.total(), len(past.turns)) == (20, 2)
        proof = await world.rehearsal(Bulb)
        assert (proof.lines, proof.history["would be refused: switch in on"].count) == (20, 10)

    played(scenario)


class Lent(Statechart, name="Lent"):
    """A manager may leave the approval to anyone."""

    review = State(initial=True, ask=Ask("manager", deadline="5d", delegate="anyone"))
    approved, paid = State(), Final()
    approve = review.to(approved, by="manager")
    pay = approved.to(paid, by="manager")
    expire = review.on_deadline.to(paid)


class Watched(Statechart, name="Lent", version=2):
    """Whoever approved does not pay."""

    review = State(initial=True, ask=Ask("manager", deadline="5d", delegate="anyone"))
    approved, paid = State(), Final()
    approve = review.to(approved, by="manager")
    pay = approved.to(paid, by="manager", distinct_from="approve")
    expire = review.on_deadline.to(paid)


@pytest.mark.mission("ENG-1")
def test_in_whose_place_somebody_acted_is_known_to_a_version_that_asks_later(played: Played) -> None:
    """Whoever had the question answered by a stand-in counts as having acted, read from the history."""

    async def scenario(world: World) -> None:
        async with world.engine(Lent) as engine:
            made = await went(engine.create(T, "it", "Lent"))
            assert made.instance == "it"
            ask = (await engine.get(T, "it")).asks["review"].id
            await went(engine.send(T, "it", delegate_ask(ask, "dan", person("bob", "manager"))))
            await went(engine.send(T, "it", delegate_ask(ask, "ed", person("dan"))))
            await went(engine.send(T, "it", Event("approve", by=person("ed"))))
        async with world.engine(Lent, Watched) as engine:
            assert (await upgrade(engine, "Lent", 2)).done == 1
            assert set((await engine.get(T, "it")).acted["approve"]) == {"ed", "dan", "bob"}
            answer = await engine.send(T, "it", Event("pay", by=person("bob", "manager")))
            assert isinstance(answer, Refusal)
            assert answer.code == "duty"
            await went(engine.send(T, "it", Event("pay", by=person("cid", "manager"))))

    played(scenario)
