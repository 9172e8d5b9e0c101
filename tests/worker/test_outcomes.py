"""What a handler returns or raises decides where its instance goes."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from headway import Event, Final, State, Statechart, View, agent
from headway.codec import DEEPEST, encode
from headway.errors import InputError
from headway.statechart.snapshot import Actor
from headway.worker.attempt import Again, AttemptRef, Done, Fail, event_of, failure
from headway.worker.handlers import Handlers
from headway.worker.work import Work
from tests.worker.world import Job, World, begun, handling, where, worked

pytestmark = pytest.mark.mission("ENG-10", "ENG-11")
BY = Actor("w#1", "service", frozenset({"system"}))


def attempt_at(work: str, attempt: int = 1) -> AttemptRef:
    """An attempt at a work item."""
    return AttemptRef(tenant="acme", worker=BY.id, id=work, attempt=attempt)


class Paid(BaseModel):
    """A result with a type."""

    receipt: str
    cents: int = 0


@dataclass
class Plain:
    """A result of another kind of type."""

    receipt: str


class DeclinedError(Exception):
    """An error that says what it is."""

    code = "declined"
    details: ClassVar = {"bank": "b", 1: "one"}


class NotFoundError(Exception):
    """An error that has only its name."""


class WordlessError(Exception):
    """An error whose code is no word, and that cannot be spelled."""

    code = "two words"

    def __str__(self) -> str:
        raise ValueError("no text")


faults: set[str] = set()


def breaks(_view: View) -> None:
    """An action with a fault that somebody mends later."""
    if faults:
        raise RuntimeError("broken")


class Broken(Statechart):
    """A chart that cannot take any outcome."""

    doing = State(initial=True, run="do")
    done, failed = Final(), Final()
    finish = doing.on_done.to(done, do=breaks)
    fail = doing.on_error.to(failed, do=breaks)


def raising(error: BaseException) -> Callable[[Work], Any]:
    """A handler that raises."""

    async def handler(_work: Work) -> None:
        raise error

    return handler


def returning(value: object) -> Callable[[Work], Any]:
    """A handler that returns at once."""

    async def handler(_work: Work) -> object:
        return value

    return handler


def in_thread(value: object) -> Callable[[Work], Any]:
    """A handler that is not async."""
    return lambda _work: value


ENDS: list[tuple[Callable[[Work], Any], str, Any]] = [
    (returning(None), "done", None),
    (returning({"n": [1, 2.5]}), "done", {"n": [1, 2.5]}),
    (returning((1, 2)), "done", [1, 2]),
    (returning(Done("it")), "done", "it"),
    (returning(Paid(receipt="r")), "done", {"receipt": "r", "cents": 0}),
    (returning(Plain("r")), "done", {"receipt": "r"}),
    (in_thread("threaded"), "done", "threaded"),
    (returning(Job.approve(7)), "approved", 7),
    (returning(Fail("broken", "it is", page=3)), "failed", {"code": "broken", "message": "it is", "page": 3}),
    (in_thread(Fail("broken")), "failed", {"code": "broken", "message": ""}),
    (raising(NotFoundError("no page")), "failed", {"code": "NotFoundError", "message": "no page"}),
    (
        raising(DeclinedError("no")),
        "failed",
        {"code": "declined", "message": "no", "bank": "b", "1": "one"},
    ),
    (
        raising(ExceptionGroup("several", [NotFoundError("one")])),
        "failed",
        {"code": "NotFoundError", "message": "one"},
    ),
    (raising(asyncio.CancelledError("inside")), "failed", {"code": "CancelledError", "message": "inside"}),
    (raising(SystemExit(3)), "failed", {"code": "SystemExit", "message": "3"}),
]


async def test_a_result_that_is_too_deep_fails_the_work(world: World) -> None:
    """A result, a checkpoint and progress have the limit of all JSON that comes in, and what fits is kept."""
    deep: Any = []
    for _ in range(DEEPEST):
        deep = [deep]

    async def handler(work: Work) -> object:
        with pytest.raises(InputError, match="levels deep"):
            await work.checkpoint(deep)
        with pytest.raises(InputError, match="levels deep"):
            work.progress(0.5, data={"x": deep})
        return deep

    async with world.engine() as engine:
        await begun(engine, "a")
        await worked(world.worker(engine, handling(handler)))
        it = await where(engine)
        assert (it.states, it.context["brought"]["code"]) == (("failed",), "bad_result")
        assert "levels deep" in it.context["brought"]["message"]


@pytest.mark.parametrize(("handler", "state", "brought"), ENDS)
async def test_an_outcome_moves_the_instance(
    world: World, handler: Callable[[Work], Any], state: str, brought: object
) -> None:
    """Values, events, failures and exceptions arrive in the chart, from async functions and from threads."""
    async with world.engine() as engine:
        await begun(engine, "a")
        worker = world.worker(engine, handling(handler))
        await worked(worker)
        it = await where(engine)
        assert (it.states, it.context) == ((state,), {"brought": brought})
        assert worker.tally == {"claimed": 1, "failed" if state == "failed" else "done": 1}


@pytest.mark.parametrize(
    "handler",
    [
        returning(object()),
        returning({"x": float("nan")}),
        returning("x" * 2_000_000),
        in_thread({1, object()}),
    ],
)
async def test_a_result_that_cannot_be_stored_is_a_failure(
    world: World, handler: Callable[[Work], Awaitable[Any]]
) -> None:
    """What is not JSON, or too large, ends the work with the code bad_result."""
    async with world.engine() as engine:
        await begun(engine, "a")
        worker = world.worker(engine, handling(handler))
        await worked(worker)
        it = await where(engine)
        assert it.states == ("failed",)
        assert it.context["brought"]["code"] == "bad_result"
        assert worker.tally == {"claimed": 1, "failed": 1}


async def test_an_event_that_is_refused_is_a_failure(world: World) -> None:
    """Work does not hang for ever because its handler sent what the chart does not take."""
    async with world.engine() as engine:
        await begun(engine, "a", "b")

        async def handler(work: Work) -> Event:
            return Job.approve("seven") if work.instance == "a" else Event("unheard")

        await worked(world.worker(engine, handling(handler)))
        for instance in "ab":
            it = await where(engine, instance)
            assert (it.states, it.context["brought"]["code"]) == (("failed",), "refused")


async def test_an_outcome_that_nothing_takes_is_put_aside(world: World) -> None:
    """When even the failure is refused, the work is handed back and tried later, not at once and for ever."""
    async with world.engine(Broken) as engine:
        await begun(engine, "a", chart=Broken)
        worker = world.worker(engine, handling(returning("it")))
        faults.add("broken")
        await worked(worker)
        faults.clear()
        assert worker.tally == {"claimed": 1}
        assert not await worker.turn()
        world.clock.advance("30s")
        await worked(worker)
        assert (await where(engine)).states == ("done",)


async def test_again_is_no_failure(everywhere: World) -> None:
    """The same attempt comes back after the time the handler has asked for, and counts as no retry."""
    attempts: list[int] = []

    async def handler(work: Work) -> object:
        attempts.append(work.attempt)
        return Again(after="30s") if len(attempts) < 4 else "at last"

    async with everywhere.engine() as engine:
        await begun(engine, "a")
        worker = everywhere.worker(engine, handling(handler))
        await worked(worker)
        assert len(attempts) == 1
        for _ in range(3):
            everywhere.clock.advance("29s")
            assert not await worker.turn()
            everywhere.clock.advance("1s")
            await worked(worker)
        assert attempts == [1, 1, 1, 1]
        assert (await where(engine)).states == ("done",)
        assert worker.tally == {"claimed": 4, "again": 3, "done": 1}


async def test_the_chart_decides_about_retries(world: World) -> None:
    """A failure that the chart retries comes back as the next attempt after its delay, and ends at last."""
    attempts: list[int] = []

    async def handler(work: Work) -> object:
        attempts.append(work.attempt)
        return Fail("flaky")

    async with world.engine() as engine:
        await begun(engine, "a")
        worker = world.worker(engine, handling(handler))
        for expected in ([1], [1, 2], [1, 2, 3]):
            await worked(worker)
            assert attempts == expected
            world.clock.advance("5s" if expected == [1] else "10s")
        assert (await where(engine)).states == ("failed",)
        assert worker.tally == {"claimed": 3, "failed": 3}


def test_an_event_is_sent_by_the_worker_unless_it_says_by_whom() -> None:
    """The history shows which worker acted, or the agent that the handler speaks for."""
    planner = agent("planner", "planner")
    for event, sender in ((Event("go"), BY), (Event("go", by=planner), planner)):
        made = event_of(event, attempt_at("w", 3))
        assert (made.by, made.ref, made.attempt) == (sender, "w", 3)


def test_a_failure_never_shows_more_than_it_should() -> None:
    """Messages are cut, details that are no JSON are spelled, and codes are words."""
    assert len(Fail("code", "x" * 5_000).message) == 500
    assert len(failure(ValueError("x" * 5_000)).message) == 500
    assert failure(WordlessError()).code == "WordlessError"
    data = event_of(Fail("code", "m", thing=object()), attempt_at("w")).data
    assert data["thing"].startswith("<object")
    assert b"Traceback" not in encode(data)
    for code in ("", "two words", "dotted.code", "x" * 101):
        with pytest.raises(ValueError, match="a word"):
            Fail(code)


def test_again_takes_durations_only() -> None:
    """Whatever is no duration is told where it is written."""
    assert Again("1m 30s").after == timedelta(seconds=90)
    for wrong in ("soon", -1, float("nan")):
        with pytest.raises(ValueError, match="duration"):
            Again(wrong)


async def test_again_at_once_is_not_a_circle(world: World) -> None:
    """A handler that always says "again" is not called again before some time has passed."""
    calls: list[int] = []

    async def handler(work: Work) -> object:
        calls.append(work.attempt)
        return Again(0)

    async with world.engine() as engine:
        await begun(engine, "a")
        worker = world.worker(engine, handling(handler))
        await worked(worker)
        assert calls == [1]
        world.clock.advance("99ms")
        await worked(worker)
        assert calls == [1]
        world.clock.advance("1ms")
        await worked(worker)
        assert calls == [1, 1]
    assert Again().after == timedelta(seconds=1)


def test_details_may_have_any_names() -> None:
    """What an error tells about its context does not collide with what the engine needs."""
    data = event_of(Fail("code", "m", attempt=9, by="me", work="w", url="u"), attempt_at("w", 2))
    assert (data.attempt, data.data["attempt"], data.data["code"]) == (2, 9, "code")


def test_handlers_have_names() -> None:
    """Functions are registered by their own name or another one, each name once."""
    handlers, others = Handlers(), Handlers()

    @handlers
    async def pay(_work: Work) -> None: ...

    @handlers.handler("send")
    def post(_work: Work) -> None: ...

    @handlers.handler
    def look(_work: Work) -> None: ...

    class Object:
        async def __call__(self, _work: Work) -> None: ...

    others.add("object", Object())
    handlers.include(others)
    assert handlers.names == ("pay", "send", "look", "object")
    assert [handler.in_thread for handler in handlers] == [False, True, True, False]
    assert pay.__name__ == "pay"
    assert post.__name__ == "post"
    assert look.__name__ == "look"
    for name, function in (("pay", post), ("", post), ("other", None)):
        with pytest.raises(InputError):
            handlers.add(name, function)  # type: ignore[arg-type]
