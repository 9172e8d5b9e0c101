"""Units at the same time: on one instance, on one request, in two stores, and when their caller goes away."""

from __future__ import annotations

import asyncio

import pytest

from headway.codec import replace
from headway.errors import StoreUnavailableError
from headway.store.port import Store
from headway.store.unit import Changes, Found, Reads
from tests.store.contract.acts import KEY, Act, Transfer, counted, found, writing
from tests.store.contract.place import (
    HISTORY,
    INSTANCE,
    KNOWN,
    REQUEST,
    Place,
    instance,
)

COUNTER = ("acme", "n")


@pytest.mark.mission("ENG-3", "ENG-4", "ENG-17")
class TestConcurrency:
    """Units at the same time lose nothing."""

    async def test_fifty_units_on_one_instance_lose_no_update(self, store: Store) -> None:
        """Each sees what the one before it has written."""
        await store.run(writing(created=[instance(snapshot="0")]))
        await asyncio.gather(*(store.run(counted(1)) for _ in range(50)))
        row = await store.instances.get(KEY)
        assert row
        assert (row.snapshot, row.seq) == ("50", 51)

    async def test_two_stores_on_one_instance_lose_no_update(self, place: Place, store: Store) -> None:
        """Stores share their rows as the units of one store do."""
        if not place.shared:
            pytest.skip("only one store can be open here")
        second = place.store()
        await second.open()
        try:
            await store.run(writing(created=[instance(snapshot="0")]))
            await asyncio.gather(*(each.run(counted(1)) for _ in range(10) for each in (store, second)))
            row = await second.instances.get(KEY)
        finally:
            await second.close()
        assert row
        assert row.snapshot == "20"

    async def test_twenty_creators_of_one_instance_make_one(self, store: Store) -> None:
        """One creates, the others find it, and none fails."""

        def create(seen: Found) -> Changes:
            if seen.instances:
                return Changes()
            return Changes(created=[INSTANCE], counters={COUNTER: 1})

        await asyncio.gather(*(store.run(Act(create, lambda: Reads(instances={KEY}))) for _ in range(20)))
        assert (await found(store, counters={COUNTER})).counters == {COUNTER: 1}

    @pytest.mark.mission("ENG-6")
    async def test_twenty_repeats_of_one_request_run_once(self, store: Store) -> None:
        """One runs, the others find its answer."""

        def serve(seen: Found) -> Changes:
            return Changes() if seen.requests else Changes(requests=[REQUEST], counters={COUNTER: 1})

        await asyncio.gather(
            *(store.run(Act(serve, lambda: Reads(requests={("acme", "r1")}))) for _ in range(20))
        )
        assert (await found(store, counters={COUNTER})).counters == {COUNTER: 1}

    async def test_units_that_lock_in_opposite_order_all_end(self, store: Store) -> None:
        """Nobody waits for ever, and no transfer is lost or done twice."""
        await store.run(writing(created=[instance("a", snapshot="0"), instance("b", snapshot="0")]))
        ways = [("a", "b"), ("b", "a"), ("a", "b")]
        await asyncio.gather(*(store.run(Transfer(*way)) for way in ways))
        rows = [await store.instances.get(("acme", name)) for name in "ab"]
        assert [row.snapshot for row in rows if row] == ["-1", "1"]

    async def test_units_that_name_their_locks_at_once_never_collide(self, store: Store) -> None:
        """Locks asked for together are taken in one order, so forty units need no second attempt."""
        keys = [("acme", f"i{n}") for n in range(8)]
        await store.run(writing(created=[instance(name, snapshot="0") for _, name in keys]))

        def all_of(seen: Found) -> Changes:
            rows = seen.instances.values()
            return Changes(updated=[replace(row, snapshot=str(int(row.snapshot) + 1)) for row in rows])

        def of_five(start: int) -> Act:
            wanted = {keys[(start + n) % 8] for n in range(5)}
            return Act(all_of, lambda: Reads(instances=wanted))

        units = [of_five(start) for start in range(40)]
        await asyncio.gather(*map(store.run, units))
        rows = [await store.instances.get(key) for key in keys]
        assert {row.snapshot for row in rows if row} == {"25"}
        assert {unit.begun for unit in units} == {1}

    async def test_a_caller_that_goes_away_leaves_no_half_unit(self, store: Store) -> None:
        """A cancelled unit is written whole or not at all, and the store goes on."""
        for turns in range(4):
            name = f"i{turns}"
            unit = writing(created=[instance(name)], history=[replace(HISTORY, instance=name)])
            task = asyncio.create_task(store.run(unit))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await store.run(writing(created=[instance(f"next{turns}")]))
            there = await store.instances.get(("acme", name)) is not None
            assert len(await store.history.page(("acme", name))) == there

    async def test_closing_finishes_what_is_under_way(self, place: Place) -> None:
        """A unit that was handed in before the store closed is done, and stays."""
        store = place.store()
        await store.open()
        tasks = [asyncio.create_task(store.run(writing(created=[instance(f"i{n}")]))) for n in range(10)]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*tasks)
        if place.shared:
            again = place.store()
            await again.open()
            rows = [await again.instances.get(("acme", f"i{n}")) for n in range(10)]
            await again.close()
            assert None not in rows

    async def test_a_closed_store_says_so(self, place: Place) -> None:
        """Whoever uses a store that is closed, or was never opened, gets one typed error."""
        store = place.store()
        with pytest.raises(StoreUnavailableError):
            await store.run(writing())
        await store.open()
        await store.close()
        await store.close()
        for call in (store.run(writing()), store.instances.get(KEY), store.timers.due(1, KNOWN)):
            with pytest.raises(StoreUnavailableError):
                await call
        await store.open()
        await store.run(writing())
        await store.close()
