"""A relay goes by its destination's cursor in the store, whoever has moved it."""

import asyncio

import pytest

from headway.outbox.message import Message
from headway.outbox.relay import Relay
from headway.store.port import Store
from headway.testing import FakeClock
from tests.outbox.world import Reader, publish, relay_to, until_idle
from tests.overlay import Overlay

pytestmark = pytest.mark.mission("ENG-5")


async def lose_lease(store: Store, relay: Relay) -> None:
    """Let another relay have the lease before this one asks for it again."""
    await store.leases.release([("", relay._lease.name)], relay._lease.holder)


async def test_a_relay_goes_on_from_where_another_holder_has_come(store: Store, clock: FakeClock) -> None:
    """What another relay has delivered since is not delivered again."""
    mine, theirs = Reader(), Reader()
    one, two = relay_to(store, mine, holder="one"), relay_to(store, theirs, holder="two")
    await publish(store, "a", "first")
    await until_idle(one)
    await lose_lease(store, one)
    await publish(store, "a", "second")
    await until_idle(two)
    await two.stop()
    clock.advance("11s")
    await until_idle(one)
    assert (mine.names, theirs.names) == (["first"], ["second"])
    await publish(store, "a", "third")
    await until_idle(one)
    assert mine.names == ["first", "third"]


async def test_a_relay_does_not_move_a_cursor_back_that_another_holder_has_moved(store: Store) -> None:
    """A relay that finds its lease free again during a delivery writes nothing if the cursor has moved."""
    theirs, over = Reader(), asyncio.Event()
    asked: list[object] = []
    other = relay_to(store, theirs, holder="other")

    async def hold(*given: object) -> object:
        if asked:  # however long the others take, it comes back to the store after them
            await over.wait()
        asked.append(given)
        return await store.leases.hold(*given)  # type: ignore[arg-type]

    async def overtaken(_message: Message) -> None:
        await lose_lease(store, slow)
        await until_idle(other)
        await publish(store, "a", "two")
        await until_idle(other)
        await other.stop()
        over.set()
        await asyncio.Event().wait()

    mine = Reader(one=overtaken)
    slow = relay_to(
        Overlay(store, leases=Overlay(store.leases, hold=hold)), mine, holder="slow", lease="60ms"
    )
    await publish(store, "a", "one")
    assert await slow.turn()
    assert slow.tally["lost"] == 1
    await until_idle(slow)
    assert (mine.attempts, theirs.names) == (["one"], ["one", "two"])
