"""The limits of claims: how many items at once, how many in a time, and who may have them at all."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from headway.store.port import Store
from headway.store.rows import WorkRow
from tests.store.contract.acts import writing
from tests.store.contract.clocks import MINUTE, timed
from tests.store.contract.place import LONG_AGO, Place, work
from tests.store.contract.test_work import claim, ids

HOUR = 3_600_000


def many(name: str, count: int, **fields: Any) -> list[WorkRow]:
    """So many items, the first the longest due."""
    return [work(f"{name}{n:03}", due=LONG_AGO + timedelta(seconds=n), **fields) for n in range(1, count + 1)]


@pytest.mark.mission("ENG-10", "ENG-17")
class TestLimits:
    """A limit holds exactly, whoever claims, and holds up only what it limits."""

    async def test_no_more_are_leased_at_once_than_their_key_allows(self, store: Store) -> None:
        """Room comes from work that is handed back, gone, or written anew for a next attempt."""
        await store.run(writing(work=many("a", 9, concurrency="site", at_once=2)))
        assert ids(await store.work.claim(claim())) == ["a001", "a002"]
        assert not await store.work.claim(claim("other"))
        await store.work.release("w", [("acme", "a001", 1)])
        assert ids(await store.work.claim(claim())) == ["a001"]
        await store.run(writing(work_gone=[("acme", "a001")]))
        assert ids(await store.work.claim(claim())) == ["a003"]
        again = work("a002", attempt=2, due=LONG_AGO, concurrency="site", at_once=2)
        await store.run(writing(work=[again]))
        assert ids(await store.work.claim(claim())) == ["a002"]

    async def test_a_lease_that_has_run_out_still_counts(self, store: Store) -> None:
        """Until it is rescued: its worker may not have noticed yet."""
        past = await store.now() - timedelta(seconds=1)
        held = work("held", worker="x", leased_until=past, concurrency="site")
        await store.run(writing(work=[held, *many("a", 2, concurrency="site")]))
        assert not await store.work.claim(claim())
        await store.run(writing(work_gone=[("acme", "held")]))
        assert ids(await store.work.claim(claim())) == ["a001"]

    @pytest.mark.parametrize(
        "limit",
        [{"concurrency": "k", "at_once": 3}, {"rate": "k", "rate_most": 3, "rate_per": HOUR}],
        ids=["at once", "rate"],
    )
    async def test_a_key_is_one_whatever_queue_urgency_and_state(
        self, store: Store, limit: dict[str, Any]
    ) -> None:
        """Items that share a key share its room, the most urgent first."""
        rows = [
            *many("a", 3, **limit),
            *many("b", 3, **limit, priority=1, handler="post"),
            *many("c", 3, **limit, queue="mail", affinity="x"),
        ]
        await store.run(writing(work=rows))
        queues = ("default", "mail")
        assert ids(await store.work.claim(claim(limit=1, queues=queues))) == ["b001"]
        assert ids(await store.work.claim(claim(queues=queues))) == ["b002", "b003"]
        assert not await store.work.claim(claim(queues=queues))

    @pytest.mark.mission("ENG-14")
    async def test_a_key_belongs_to_its_tenant(self, store: Store) -> None:
        """Tenants do not take each other's room or rate."""
        limits: dict[str, Any] = {"concurrency": "k", "rate": "r", "rate_per": HOUR}
        await store.run(
            writing(work=[*many("a", 3, **limits), *many("b", 3, tenant="other", **limits)]),
        )
        assert sorted(ids(await store.work.claim(claim()))) == ["a001", "b001"]
        assert not await store.work.claim(claim())

    async def test_items_go_by_their_own_limit(self, store: Store) -> None:
        """A newer version of a chart may allow more; what still carries the old limit waits."""
        rows = [*many("a", 3, concurrency="k", at_once=1), *many("b", 3, concurrency="k", at_once=3)]
        await store.run(writing(work=rows))
        claimed = [name for _ in range(4) for name in ids(await store.work.claim(claim()))]
        assert min(claimed) == "a001"
        assert len(claimed) == 3

    async def test_a_rate_allows_a_burst_and_then_one_at_a_time(self, place: Place) -> None:
        """Two a minute: two at once, and one each half minute; what was not used adds up to two again."""
        async with timed(place) as (store, clock):
            await store.run(writing(work=many("a", 20, rate="api", rate_most=2, rate_per=MINUTE)))
            taken = []
            for wait in ("0s", "1s", "28.999s", "1ms", "1s", "29s", "59s", "1s", "10h", "29s", "1s"):
                clock.advance(wait)
                taken.append(len(await store.work.claim(claim())))
        assert taken == [2, 0, 0, 1, 0, 1, 1, 1, 2, 0, 1]

    async def test_a_rate_is_not_forgotten_when_another_is_used(self, place: Place) -> None:
        """What expired rates leave behind is deleted; a rate without room, or of another tenant, stays."""
        async with timed(place) as (store, clock):
            limits: dict[str, Any] = {"rate_per": MINUTE, "rate": "api"}
            await store.run(writing(work=[*many("a", 2, **limits), *many("b", 2, tenant="other", **limits)]))
            assert sorted(ids(await store.work.claim(claim()))) == ["a001", "b001"]
            await store.run(writing(work=many("c", 3, rate="mail", rate_per=MINUTE)))
            clock.advance("59.999s")
            assert ids(await store.work.claim(claim())) == ["c001"]
            clock.advance("1ms")
            assert sorted(ids(await store.work.claim(claim()))) == ["a002", "b002"]
            assert not await store.work.claim(claim())

    async def test_work_that_is_handed_back_has_used_its_rate(self, place: Place) -> None:
        """What was handed out counts, whatever became of it."""
        async with timed(place) as (store, clock):
            await store.run(writing(work=many("a", 3, rate="api", rate_per=MINUTE)))
            assert ids(await store.work.claim(claim())) == ["a001"]
            await store.work.release("w", [("acme", "a001", 1)])
            assert not await store.work.claim(claim())
            clock.advance("1m")
            assert ids(await store.work.claim(claim())) == ["a001"]

    async def test_both_limits_hold_together(self, place: Place) -> None:
        """What may run and what may start: the smaller number counts, and uses no more of the other."""
        async with timed(place) as (store, clock):
            limits: dict[str, Any] = {"concurrency": "k", "at_once": 2, "rate": "r", "rate_per": MINUTE}
            await store.run(writing(work=many("a", 9, rate_most=3, **limits)))
            first = await store.work.claim(claim())
            assert len(first) == 2
            await store.run(writing(work_gone=[(row.tenant, row.id) for row in first]))
            assert len(await store.work.claim(claim())) == 1
            clock.advance("20s")
            assert len(await store.work.claim(claim())) == 1
            clock.advance("10h")
            assert not await store.work.claim(claim())

    @pytest.mark.parametrize("limit", [1, 3, 100])
    async def test_a_backlog_without_room_hides_nothing(self, store: Store, limit: int) -> None:
        """Work behind it comes at once, of the same queue, urgency and tenant, limited or not."""
        later: dict[str, Any] = {"due": await store.now()}
        await store.run(
            writing(
                work=[
                    work("held", worker="x", leased_until=later["due"], concurrency="full"),
                    *many("a", 300, concurrency="full", priority=5),
                    *many("b", 300, concurrency="full"),
                    work("free", **later),
                    work("roomy", concurrency="roomy", **later),
                    work("paced", rate="paced", **later),
                ]
            )
        )
        claimed = [name for _ in range(3) for name in ids(await store.work.claim(claim(limit=limit)))]
        assert sorted(claimed) == ["free", "paced", "roomy"]

    @pytest.mark.mission("ENG-14")
    @pytest.mark.parametrize("limit", [1, 2, 4])
    async def test_tenants_are_served_in_turn_whatever_their_keys(self, store: Store, limit: int) -> None:
        """A tenant with many keys has no more turns than one with a single item."""
        backlog = [work(f"b{n}", tenant="big", due=LONG_AGO, concurrency=f"k{n}") for n in range(50)]
        await store.run(writing(work=[*backlog, work("s1", tenant="small"), work("t1", tenant="tiny")]))
        served = [row.tenant for _ in range(4 // limit) for row in await store.work.claim(claim(limit=limit))]
        assert {*served} == {"big", "small", "tiny"}

    async def test_the_longest_due_comes_first_whatever_its_key(self, store: Store) -> None:
        """Keys are no queues of their own: order is by due time among all that may run."""
        rows = many("a", 6)
        limited = [
            work(row.id, due=row.due, concurrency=f"k{n % 3}", at_once=2) for n, row in enumerate(rows)
        ]
        await store.run(writing(work=[*limited[::2], *rows[1::2]]))
        claimed = [name for _ in range(3) for name in ids(await store.work.claim(claim(limit=2)))]
        assert claimed == [row.id for row in rows]

    async def test_limits_are_exact_with_many_claimers(self, place: Place, store: Store) -> None:
        """Twenty workers, in two stores where that is possible, never lease more than there is room for."""
        rows = [
            *(work(f"c{n}", concurrency=f"k{n % 3}", at_once=4) for n in range(90)),
            *(work(f"r{n}", rate=f"r{n % 3}", rate_most=5, rate_per=HOUR) for n in range(90)),
            *(
                work(f"b{n}", concurrency="k0", at_once=4, rate="r0", rate_most=5, rate_per=HOUR)
                for n in range(9)
            ),
            *(work(f"f{n}") for n in range(60)),
        ]
        await store.run(writing(work=rows))
        second = place.store() if place.shared else store
        await second.open()

        async def worker(name: str, at: Store) -> list[WorkRow]:
            got: list[WorkRow] = []
            for _ in range(8):
                got += await at.work.claim(claim(name, limit=7))
            return got

        shares = await asyncio.gather(
            *(worker(f"{n}{at is second}", at) for n in range(10) for at in (store, second))
        )
        if place.shared:
            await second.close()
        claimed = [row for share in shares for row in share]
        assert len({row.id for row in claimed}) == len(claimed)
        for n in range(3):
            assert sum(row.concurrency == f"k{n}" for row in claimed) == 4
            assert sum(row.rate == f"r{n}" for row in claimed) == 5
        assert sum(row.concurrency is None and row.rate is None for row in claimed) == 60

    async def test_work_goes_to_the_holder_of_its_affinity(self, store: Store) -> None:
        """As long as somebody holds it; before and after anyone may have it, and the rest always."""
        rows = [*many("a", 300, affinity="browser 1"), work("b", affinity="browser 2"), work("c")]
        await store.run(writing(work=rows))
        await store.leases.hold([("acme", "browser 1"), ("other", "browser 2")], "w1", HOUR)
        assert sorted(ids(await store.work.claim(claim("w2", limit=2)))) == ["b", "c"]
        assert not await store.work.claim(claim("w2"))
        assert ids(await store.work.claim(claim("w1", limit=2))) == ["a001", "a002"]
        await store.leases.release([("acme", "browser 1")], "w1")
        assert ids(await store.work.claim(claim("w2", limit=1))) == ["a003"]

    @pytest.mark.mission("ENG-14")
    async def test_affinity_is_to_a_name_of_the_same_tenant(self, store: Store) -> None:
        """Who holds this name in another tenant, or another name, holds nothing up."""
        await store.run(writing(work=[work(affinity="browser 1"), work("w2", affinity="browser 2")]))
        for lease in (("other", "browser 1"), ("acme", "browser 3")):
            await store.leases.hold([lease], "w1", HOUR)
        assert sorted(ids(await store.work.claim(claim("w2")))) == ["w1", "w2"]

    async def test_affinity_ends_with_its_lease(self, place: Place) -> None:
        """A holder that is gone holds nothing up for longer than its lease."""
        async with timed(place) as (store, clock):
            await store.run(writing(work=[work(affinity="browser")]))
            await store.leases.hold([("acme", "browser")], "w1", MINUTE)
            clock.advance("59.999s")
            assert not await store.work.claim(claim("w2"))
            clock.advance("1ms")
            assert ids(await store.work.claim(claim("w2"))) == ["w1"]
