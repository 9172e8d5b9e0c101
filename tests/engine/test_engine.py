"""The engine on each kind of store: one door, one transaction, one answer per request."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headway import Ask, Event, Final, No, Refusal, State, Statechart, View, any_live, person
from headway.actions import add, record, spawn
from headway.engine.engine import Engine
from headway.engine.orders import Order, Receipt
from headway.errors import (
    EngineError,
    InstanceExistsError,
    RequestReusedError,
    TooLargeError,
    UnknownChartError,
    UnknownInstanceError,
    VersionConflictError,
)
from headway.statechart.model import Fact
from headway.store import migrate
from headway.store.address import database_at, store_at
from headway.store.queries import InstanceQuery, WorkQuery

Scenario = Callable[[Engine], Awaitable[None]]
TENANT = "acme"
ANN = person("ann", "owner")


def has_room(view: View) -> bool | No:
    """The user may run one more."""
    return view.facts["running"] < 2 or No(f"{view.facts['running']} are running")


class Job(Statechart, facts=(Fact(name="running", kind="counter", key="running:{user}"),)):
    """Work of a user, of whom at most two run at once."""

    waiting = State(initial=True)
    running = State(run="work")
    done, dropped = Final(), Final()

    begin = waiting.to(running, when=has_room, do=add("running:{user}"), emit="job.begun")
    finish = running.on_done.to(done, do=(add("running:{user}", -1), record("result", "{user}", "user")))
    fail = running.on_error.to(dropped, do=add("running:{user}", -1))
    drop = any_live.to(dropped, by="owner")


class Child(Statechart):
    """A part of something larger."""

    open_, closed = State(initial=True), Final()
    close = open_.to(closed)


class Parent(Statechart):
    """Waits for its parts."""

    gathering = State(initial=True)
    complete = Final()
    add_part = gathering.stay(do=spawn("Child"))
    settle = gathering.on("child.changed").to(complete, when="children.closed == 2")


class Claim(Statechart):
    """Asks a manager."""

    review = State(initial=True, ask=Ask("manager", deadline="2d", remind="1d"))
    paid, refused = Final(), Final()
    approve = review.to(paid, by="manager", webhook="claim.paid")
    expire = review.on_deadline.to(refused)


CHARTS = (Job, Child, Parent, Claim)


@pytest.fixture
def played(database: str) -> Callable[[Scenario], None]:
    """Plays a scenario on an engine over each kind of store."""

    async def play(scenario: Scenario) -> None:
        async with database_at(database, create=True) as opened:
            await migrate.up(opened)
        async with Engine(store_at(database), CHARTS) as engine:
            await scenario(engine)

    return lambda scenario: asyncio.run(play(scenario))


async def moved(answer: Awaitable[object]) -> Receipt:
    """The receipt of a call that went through."""
    receipt = await answer
    assert isinstance(receipt, Receipt), receipt
    return receipt


@pytest.mark.mission("ENG-3", "ENG-7")
def test_a_transition_is_stored_with_all_that_belongs_to_it(played: Callable[[Scenario], None]) -> None:
    """State, history, work and timers of a step are there when the call returns."""

    async def scenario(engine: Engine) -> None:
        await moved(engine.create(TENANT, "job", "Job", context={"user": "ann"}))
        receipt = await moved(engine.send(TENANT, "job", Job.begin()))
        assert (receipt.status, receipt.seq) == ("running", 2)
        assert (await engine.get(TENANT, "job")).work["running"].attempt == 1
        lines = [(line.transition, line.before, line.after) for line in await engine.history(TENANT, "job")]
        assert lines == [("start", "", "waiting"), ("begin", "waiting", "running")]
        await moved(engine.create(TENANT, "claim", "Claim"))
        assert await engine.store.timers.next(engine.charts.versions) is not None

    played(scenario)


@pytest.mark.mission("ENG-2")
def test_a_refusal_changes_nothing_and_says_what_is_possible(played: Callable[[Scenario], None]) -> None:
    """An illegal event leaves seq and history as they were."""

    async def scenario(engine: Engine) -> None:
        await moved(engine.create(TENANT, "claim", "Claim"))
        answer = await engine.send(TENANT, "claim", Claim.approve(by=ANN))
        assert isinstance(answer, Refusal)
        assert (answer.code, answer.allowed[0].event) == ("actor", "approve")
        assert (await engine.get(TENANT, "claim")).seq == 1
        assert len(await engine.history(TENANT, "claim")) == 1

    played(scenario)


@pytest.mark.mission("ENG-6")
def test_a_request_id_gets_one_answer(played: Callable[[Scenario], None]) -> None:
    """Repeats, also at once, get the first answer and run once; another body is refused."""

    async def scenario(engine: Engine) -> None:
        first = await engine.create(TENANT, "job", "Job", context={"user": "ann"}, request_id="r1")
        assert await engine.create(TENANT, "job", "Job", context={"user": "ann"}, request_id="r1") == first
        at_once = await asyncio.gather(
            *(engine.send(TENANT, "job", Job.begin(), request_id="r2") for _ in range(20))
        )
        assert len(set(map(str, at_once))) == 1
        assert (await engine.get(TENANT, "job")).seq == 2
        refusal = await engine.send(TENANT, "job", Job.begin(), request_id="r3")
        await moved(engine.send(TENANT, "job", Job.drop(by=ANN)))
        assert await engine.send(TENANT, "job", Job.begin(), request_id="r3") == refusal
        with pytest.raises(RequestReusedError):
            await engine.send(TENANT, "job", Job.drop(by=ANN), request_id="r2")

    played(scenario)


@pytest.mark.mission("ENG-6")
def test_a_call_has_the_same_body_in_every_process() -> None:
    """A set of roles has no order, and so its order must not tell two calls apart."""
    roles = [f"role{number:02}" for number in range(40)]
    for given in (roles, roles[::-1]):
        order = Order((TENANT, "job"), Job.begin(by=person("ann", *given)), "r1")
        places = [order.fingerprint().index(role) for role in roles]
        assert places == sorted(places)


@pytest.mark.mission("ENG-4")
def test_writers_at_once_lose_nothing(played: Callable[[Scenario], None]) -> None:
    """Of many who expect the same version one wins; without expectation all that are legal go through."""

    async def scenario(engine: Engine) -> None:
        await moved(engine.create(TENANT, "parent", "Parent"))
        calls = [engine.send(TENANT, "parent", Parent.add_part(), expected_seq=1) for _ in range(9)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(answer, Receipt) for answer in answers) == 1
        assert sum(isinstance(answer, VersionConflictError) for answer in answers) == 8
        await asyncio.gather(*(engine.send(TENANT, "parent", Parent.add_part()) for _ in range(30)))
        snapshot = await engine.get(TENANT, "parent")
        assert (snapshot.seq, snapshot.children) == (1 + 31 * 2, {"open_": 31})

    played(scenario)


def test_guards_see_counters_that_calls_of_the_same_moment_change(
    played: Callable[[Scenario], None],
) -> None:
    """Of five jobs begun at once two may run: each guard sees what the one before it has added."""

    async def scenario(engine: Engine) -> None:
        for name in "abcde":
            await moved(engine.create(TENANT, name, "Job", context={"user": "ann"}))
        answers = await asyncio.gather(*(engine.send(TENANT, name, Job.begin()) for name in "abcde"))
        refused = [answer for answer in answers if isinstance(answer, Refusal)]
        assert len(refused) == 3
        assert all("2 are running" in str(refusal) for refusal in refused)

    played(scenario)


@pytest.mark.mission("ENG-12")
def test_a_child_reaches_its_parent_in_the_same_transaction(played: Callable[[Scenario], None]) -> None:
    """The parent's counts, and what follows from them, are there when the child's call returns."""

    async def scenario(engine: Engine) -> None:
        await moved(engine.create(TENANT, "parent", "Parent"))
        for _ in range(2):
            await moved(engine.send(TENANT, "parent", Parent.add_part()))
        children = await engine.list(InstanceQuery(tenant=TENANT, parent="parent"))
        assert [child.status for child in children] == ["open_", "open_"]
        for child in children:
            await moved(engine.send(TENANT, child.id, Child.close()))
        assert (await engine.get(TENANT, "parent")).states == ("complete",)

    played(scenario)


def test_a_bad_call_never_fails_its_neighbours(played: Callable[[Scenario], None]) -> None:
    """In one batch, each call gets its own answer or its own error."""

    async def scenario(engine: Engine) -> None:
        await moved(engine.create(TENANT, "job", "Job", context={"user": "ann"}))
        answers: Any = await asyncio.gather(
            engine.send(TENANT, "nobody", Job.begin()),
            engine.send(TENANT, "job", Job.begin()),
            engine.create(TENANT, "job", "Job"),
            engine.create(TENANT, "other", "Unheard"),
            engine.send(TENANT, "job", Event("")),
            return_exceptions=True,
        )
        kinds = [type(answer).__name__ for answer in answers]
        assert kinds == [
            "UnknownInstanceError",
            "Receipt",
            "InstanceExistsError",
            "UnknownChartError",
            "InputError",
        ]

    played(scenario)


@pytest.mark.mission("ENG-14")
def test_a_tenant_sees_only_its_own(played: Callable[[Scenario], None]) -> None:
    """Instances of one id in two tenants are two instances."""

    async def scenario(engine: Engine) -> None:
        await moved(engine.create(TENANT, "claim", "Claim"))
        with pytest.raises(UnknownInstanceError):
            await engine.get("other", "claim")
        await moved(engine.create("other", "claim", "Claim"))
        await moved(engine.send("other", "claim", Claim.approve(by=person("b", "manager"))))
        assert (await engine.get(TENANT, "claim")).states == ("review",)
        assert len(await engine.list(InstanceQuery(tenant=TENANT))) == 1

    played(scenario)


def test_what_cannot_be_done_has_its_own_error(played: Callable[[Scenario], None]) -> None:
    """Unknown charts and instances, doubles, and what is too large are told apart."""

    async def scenario(engine: Engine) -> None:
        await moved(engine.create(TENANT, "claim", "Claim"))
        for error, call in (
            (UnknownChartError, engine.create(TENANT, "x", "Unheard")),
            (InstanceExistsError, engine.create(TENANT, "claim", "Claim")),
            (UnknownInstanceError, engine.send(TENANT, "x", Event("go"))),
            (TooLargeError, engine.send(TENANT, "claim", Event("go", "x" * 2_000_000))),
        ):
            with pytest.raises(error):
                await call
        answers = await engine.send_many(TENANT, [("x", Event("go")), ("claim", Event("go"))])
        assert isinstance(answers[0], EngineError)
        assert isinstance(answers[1], Refusal)
        assert "manager can approve" in str(await engine.why(TENANT, "claim"))

    played(scenario)


@pytest.mark.mission("ENG-9", "ENG-10")
def test_what_a_step_begins_and_takes_back_leaves_no_row(database: str) -> None:
    """Work and timers of a state that is left in the step that enters it are never seen by anybody."""

    class Passing(Statechart):
        """Passes through a state with work and a timer."""

        first = State(initial=True)
        through = State(run="work")
        last, over = State(), Final()
        go = first.to(through)
        on = through.always.to(last)
        late = through.after("1h").to(over)
        done = through.on_done.to(over) | through.on_error.to(over)
        end = last.to(over)

    async def play() -> None:
        async with database_at(database, create=True) as opened:
            await migrate.up(opened)
        async with Engine(store_at(database), [Passing]) as engine:
            await moved(engine.create(TENANT, "p", "Passing"))
            assert (await moved(engine.send(TENANT, "p", Passing.go()))).states == ("last",)
            assert not await engine.store.work.page(WorkQuery(tenant=TENANT))
            assert await engine.store.timers.next(engine.charts.versions) is None

    asyncio.run(play())
