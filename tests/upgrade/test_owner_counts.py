"""An owner's count of live instances is right when an upgrade ends one of them."""

import pytest

from headway import Final, State, Statechart
from headway.engine.facts import instances_key
from headway.engine.upgrade.upgrade import upgrade
from headway.store.port import Store
from tests.store.contract.acts import found
from tests.upgrade.world import Played, T, World, went


class Visit(Statechart, owner="{user}"):
    """A visit that somebody ends."""

    here, gone = State(initial=True), Final()
    leave = here.to(gone)


class Shorter(Statechart, name="Visit", version=2, owner="{user}"):
    """A visit that ends by itself once it is over."""

    here, gone = State(initial=True), Final()
    leave = here.to(gone)
    end = here.always.to(gone, when="over")


async def counted(store: Store, owner: str) -> int:
    """How many live visits an owner has by the store's counter."""
    key = (T, instances_key("Visit", owner))
    return (await found(store, counters={key})).counters.get(key, 0)


@pytest.mark.mission("ENG-19")
def test_an_upgrade_that_ends_an_instance_counts_it_out(played: Played) -> None:
    """Only what ended is taken off the count of its owner; those that live on are still counted."""

    async def scenario(world: World) -> None:
        async with world.engine(Visit) as engine:
            for name, user, over in (("a", "ann", True), ("b", "ann", False), ("c", "bob", True)):
                await went(engine.create(T, name, "Visit", context={"user": user, "over": over}))
            assert [await counted(engine.store, user) for user in ("ann", "bob")] == [2, 1]
        async with world.engine(Visit, Shorter) as engine:
            assert (await upgrade(engine, "Visit", 2)).done == 3
            assert [(await engine.get(T, name)).ended for name in "abc"] == [True, False, True]
            assert [await counted(engine.store, user) for user in ("ann", "bob")] == [1, 0]

    played(scenario)
