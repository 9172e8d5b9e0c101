"""Calls that fail, and calls that are repeated, among others in one batch."""

import asyncio

import pytest

from headway import State, Statechart
from headway.actions import spawn, topic
from headway.engine.engine import LONGEST_NAME
from headway.engine.orders import Receipt
from headway.errors import TooLargeError, UnknownChartError
from headway.node import Node
from headway.store.queries import MessageQuery


class Switch(Statechart):
    """Flips, and says so."""

    on = State(initial=True)
    flip = on.stay(do=topic("flipped"))


class Lonely(Statechart):
    """Wants a child of a chart that this node does not know."""

    here = State(initial=True)
    ask = here.stay(do=(topic("asked"), spawn("Nobody")))


@pytest.mark.mission("ENG-3", "ENG-4")
async def test_a_call_that_fails_halfway_leaves_nothing_behind(database: str) -> None:
    """Neither its history nor its messages are written; those that were sent with it are."""
    async with Node(database, [Switch, Lonely]).opened() as tenant:
        await asyncio.gather(tenant.create(Switch, "s"), tenant.create(Lonely, "l"))
        flipped, asked = await tenant.send_many([("s", Switch.flip()), ("l", Lonely.ask())])
        assert isinstance(flipped, Receipt)
        assert isinstance(asked, UnknownChartError)
        assert (await tenant.get("l")).seq == 1
        assert [line.event for line in await tenant.history("l")][1:] == []
        page = await tenant._engine.store.messages.page(MessageQuery(kinds=("topic",)))
        assert [message.name for message in page.messages] == ["flipped"]


@pytest.mark.mission("ENG-6")
async def test_many_events_with_a_request_id_have_an_answer_each(database: str) -> None:
    """The same list under the same id is answered again; without one it is sent anew."""
    async with Node(database, [Switch]).opened() as tenant:
        await asyncio.gather(*(tenant.create(Switch, name) for name in "ab"))
        events = [(name, Switch.flip()) for name in "aba"]
        first = await tenant.send_many(events, request_id="r")
        assert [answer.seq for answer in first if isinstance(answer, Receipt)] == [2, 2, 3]
        assert await tenant.send_many(events, request_id="r") == first
        again = await tenant.send_many(events)
        assert [answer.seq for answer in again if isinstance(answer, Receipt)] == [4, 3, 5]


@pytest.mark.mission("ENG-6")
async def test_a_request_id_has_at_most_so_many_characters(database: str) -> None:
    """The longest id that is allowed is taken; one character more is too many."""
    async with Node(database, [Switch]).opened() as tenant:
        await tenant.create(Switch, "s")
        assert isinstance(await tenant.send("s", Switch.flip(), request_id="r" * LONGEST_NAME), Receipt)
        with pytest.raises(TooLargeError):
            await tenant.send("s", Switch.flip(), request_id="r" * (LONGEST_NAME + 1))
        assert (await tenant.get("s")).seq == 2
