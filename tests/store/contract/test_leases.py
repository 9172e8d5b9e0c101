"""Leases on names, and the names of nodes."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from headway.store.port import Store
from headway.store.queries import WorkQuery
from tests.store.contract.acts import writing
from tests.store.contract.clocks import MINUTE, minute
from tests.store.contract.place import (
    ANY_TEXT,
    LONG_AGO,
    NEVER,
    Place,
    work,
)

NAME = ("acme", "browser")
HOUR = 3_600_000
A_MINUTE = timedelta(minutes=1)
BROWSER, SOMEONES, OVER = ("acme", "browser"), ("acme", "printer"), ("acme", "scanner")


async def is_leased(store: Store, *ids: str) -> list[bool]:
    """Whether the lease of each work still runs."""
    now = await store.now()
    rows = await store.work.page(WorkQuery(tenant="acme", ids=ids))
    return [row.leased_until is not None and row.leased_until > now for row in rows]


@pytest.mark.mission("ENG-10", "ENG-17")
class TestLeases:
    """A name has one holder until its lease ends or is given up."""

    async def test_a_name_has_one_holder(self, store: Store) -> None:
        """The first gets it, the second does not, and the first may take it again."""
        assert await store.leases.hold([NAME], "w1", HOUR) == [NAME]
        assert await store.leases.hold([NAME], "w2", HOUR) == []
        assert await store.leases.hold([NAME], "w1", HOUR) == [NAME]

    async def test_a_lease_tells_who_and_until_when(self, store: Store) -> None:
        """Until the store's time and what was asked for, counted anew with each extension."""
        assert await store.leases.get(NAME) is None
        for milliseconds in (HOUR, 2 * HOUR):
            now = await store.now()
            await store.leases.hold([NAME], "w1", milliseconds)
            held = await store.leases.get(NAME)
            assert held
            assert (held.tenant, held.name, held.holder) == (*NAME, "w1")
            assert abs(held.until - now - timedelta(milliseconds=milliseconds)) < A_MINUTE

    async def test_a_lease_that_has_ended_is_free(self, store: Store) -> None:
        """Another takes it over; whose it was stays known until then."""
        await store.leases.hold([NAME], "w1", 0)
        held = await store.leases.get(NAME)
        assert held
        assert (held.holder, held.until <= await store.now()) == ("w1", True)
        assert await store.leases.hold([NAME], "w2", HOUR) == [NAME]
        assert await store.leases.hold([NAME], "w1", HOUR) == []

    async def test_only_the_holder_lets_go(self, store: Store) -> None:
        """What another would give up stays; what the holder gives up is free at once."""
        await store.leases.hold([NAME], "w1", HOUR)
        await store.leases.release([NAME, ("acme", "none")], "w2")
        assert await store.leases.hold([NAME], "w2", HOUR) == []
        await store.leases.release([NAME], "w1")
        assert await store.leases.get(NAME) is None
        assert await store.leases.hold([NAME], "w2", HOUR) == [NAME]

    async def test_many_names_are_held_at_once(self, store: Store) -> None:
        """Of many names the holder gets those that are free, in the order it asked for them."""
        names = [("acme", f"{ANY_TEXT}{n}") for n in reversed(range(20))]
        await store.leases.hold(names[3:5], "w2", HOUR)
        assert await store.leases.hold(names, "w1", HOUR) == names[:3] + names[5:]
        await store.leases.release(names, "w1")
        assert [name for name in names if await store.leases.get(name)] == names[3:5]
        assert await store.leases.hold([], "w1", HOUR) == []
        await store.leases.release([], "w1")

    @pytest.mark.mission("ENG-14")
    async def test_one_name_in_two_tenants_is_two_names(self, store: Store) -> None:
        """A tenant's lease keeps nobody else from the same name."""
        other = ("other", NAME[1])
        assert await store.leases.hold([NAME], "w1", HOUR) == [NAME]
        assert await store.leases.hold([other], "w2", HOUR) == [other]
        await store.leases.release([other], "w2")
        assert await store.leases.get(NAME)

    async def test_of_many_who_ask_at_once_one_gets_the_name(self, place: Place, store: Store) -> None:
        """Twenty holders, in two stores where that is possible, ask for the same names in any order."""
        names = [("acme", f"n{n}") for n in range(5)]
        second = place.store() if place.shared else store
        await second.open()
        try:
            asked = [
                (store, second)[n % 2].leases.hold(names[:: (-1) ** (n // 2)], f"w{n}", HOUR)
                for n in range(20)
            ]
            given = await asyncio.gather(*asked)
        finally:
            if place.shared:
                await second.close()
        assert sorted(name for each in given for name in each) == names


@pytest.mark.mission("ENG-10", "ENG-17")
class TestNodeNames:
    """A name goes to another process when the one that has it is gone, and not before."""

    async def test_the_next_process_of_a_name_ends_the_leases_of_the_one_before(self, place: Place) -> None:
        """Those on work and on names, of this holder alone; whose they were stays known."""
        if not place.shared:
            pytest.skip("a store that no other process can reach")
        first, second = place.store(), place.store()
        await first.open()
        assert await first.leases.take_name(ANY_TEXT, "old")
        rows = [work("a", worker="old", leased_until=NEVER), work("b", worker="other", leased_until=NEVER)]
        lost = work("c", worker="old", leased_until=LONG_AGO)
        await first.run(writing(work=[*rows, lost]))
        await first.leases.hold([OVER], "old", -HOUR)  # it ended an hour ago
        over = await first.leases.get(OVER)
        await first.leases.hold([BROWSER], "old", HOUR)
        await first.leases.hold([SOMEONES], "other", HOUR)
        await second.open()
        assert not await second.leases.take_name(ANY_TEXT, "new")
        assert await is_leased(second, "a", "b") == [True, True]
        await first.close()
        assert await second.leases.take_name(ANY_TEXT, "new")
        assert await is_leased(second, "a", "b") == [False, True]
        assert await second.work.page(WorkQuery("acme", ids=("c",))) == [lost]
        assert await second.leases.get(OVER) == over
        assert (await second.leases.get(BROWSER)) is not None
        assert await second.leases.hold([BROWSER, SOMEONES], "new", HOUR) == [BROWSER]
        await second.close()

    async def test_a_process_may_take_its_name_again(self, store: Store) -> None:
        """Its own leases go on, and another name is another matter."""
        assert await store.leases.take_name("n", "me")
        await store.run(writing(work=[work("a", worker="me", leased_until=NEVER)]))
        assert await store.leases.take_name("n", "me")
        assert await store.leases.take_name("m", "it")
        assert await is_leased(store, "a") == [True]


@pytest.mark.mission("ENG-17")
class TestDurations:
    """What lasts until a time lasts until just before it; what is due at a time is due at it."""

    async def test_a_name_is_held_until_the_end_of_its_lease(self, place: Place) -> None:
        """Nobody else gets it before, and anybody at that time."""
        async with minute(place) as at:
            await at.store.leases.hold([NAME], "w1", MINUTE)
            at.almost()
            assert await at.store.leases.hold([NAME], "w2", MINUTE) == []
            at.exactly()
            assert await at.store.leases.hold([NAME], "w2", MINUTE) == [NAME]

    @pytest.mark.mission("ENG-10")
    async def test_an_extended_name_is_held_from_then_on(self, place: Place) -> None:
        """An extension at the last moment lasts for the whole lease."""
        async with minute(place) as at:
            await at.store.leases.hold([NAME], "w1", MINUTE)
            at.almost()
            assert await at.store.leases.hold([NAME], "w1", MINUTE) == [NAME]
            at.almost_again()
            assert await at.store.leases.hold([NAME], "w2", MINUTE) == []
            at.exactly_again()
            assert await at.store.leases.hold([NAME], "w2", MINUTE) == [NAME]
