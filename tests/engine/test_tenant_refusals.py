"""A call of a tenant that the chart refuses raises: nobody takes it for one that went through."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headway import Ask, Final, Refusal, State, Statechart, person
from headway.errors import HeadwayError, RefusedError
from headway.node import Receipt, Tenant
from headway.testing import FakeClock, Harness

pytestmark = pytest.mark.mission("ENG-2")

ANN, BOB, EVE = person("ann", "manager"), person("bob", "manager"), person("eve", "clerk")


class Leave(Statechart, cancel="withdraw", max_depth=1):
    """A request for days off."""

    review = State(initial=True, ask=Ask("manager", deadline="2d"))
    granted, refused, withdrawn = Final(), Final(), Final()

    grant = review.to(granted, by="manager")
    refuse = review.to(refused, by="manager")
    expire = review.on_deadline.to(refused)
    withdraw = review.to(withdrawn, by="employee")


class Loop(Statechart, version=1):
    """Never comes to rest, so that it cannot be created."""

    ping = State(initial=True)
    pong = State()
    there = ping.always.to(pong)
    back = pong.always.to(ping)


@pytest.fixture
def made(database: str, clock: FakeClock) -> Harness:
    """A node on each kind of store."""
    return Harness(Leave, Loop, database=database, clock=clock)


Call = Callable[[Tenant, str], Awaitable[Receipt]]
CALLS: dict[str, tuple[Call, str]] = {
    "create": (lambda tenant, _: tenant.create(Loop, "loop"), "runaway"),
    "send": (lambda tenant, _: tenant.send("l1", Leave.grant(by=EVE)), "actor"),
    "cancel": (lambda tenant, _: tenant.cancel("l1", by=ANN), "actor"),
    "claim": (lambda tenant, ask: tenant.claim(ask, by=BOB), "claimed"),
    "release": (lambda tenant, ask: tenant.release(ask, by=EVE), "claimed"),
    "delegate": (lambda tenant, ask: tenant.delegate(ask, to="zoe", by=BOB), "claimed"),
    "answer": (lambda tenant, ask: tenant.answer(ask, "grant", by=BOB), "claimed"),
}


@pytest.mark.parametrize("verb", CALLS)
async def test_a_refused_call_raises_and_changes_nothing(made: Harness, verb: str) -> None:
    """The error carries the refusal, and its text is that of the refusal."""
    call, code = CALLS[verb]
    async with made as harness:
        tenant = harness.tenant
        await tenant.create(Leave, "l1")
        [ask] = await tenant.inbox(ANN)
        await tenant.claim(ask.id, by=ANN)
        before = (await tenant.get("l1"), await tenant.ask(ask.id))
        with pytest.raises(RefusedError) as raised:
            await call(tenant, ask.id)
        refusal = raised.value.refusal
        assert isinstance(refusal, Refusal)
        assert (refusal.code, str(raised.value)) == (code, refusal.message)
        assert isinstance(raised.value, HeadwayError)
        assert (await tenant.get("l1"), await tenant.ask(ask.id)) == before


@pytest.mark.mission("ENG-6")
async def test_a_repeat_of_a_refused_call_raises_the_same(made: Harness) -> None:
    """Under a request id the first answer counts, though the chart would take the event by then."""
    async with made as harness:
        tenant = harness.tenant
        await tenant.create(Leave, "l1")
        said: list[Any] = []
        for _ in range(2):
            with pytest.raises(RefusedError) as raised:
                await tenant.send("l1", Leave.grant(by=EVE), request_id="once")
            said.append(raised.value.refusal)
        assert said[0] == said[1]


async def test_many_events_are_answered_one_by_one(made: Harness) -> None:
    """One refused event does not hide what became of the others, and the engine's own call returns it."""
    async with made as harness:
        tenant = harness.tenant
        for name in ("l1", "l2"):
            await tenant.create(Leave, name)
        events = [("l1", Leave.grant(by=EVE)), ("l2", Leave.grant(by=ANN))]
        answers = await tenant.send_many(events)
        assert [type(answer) for answer in answers] == [Refusal, Receipt]
        assert isinstance(await harness.node.engine.send("default", *events[0]), Refusal)
