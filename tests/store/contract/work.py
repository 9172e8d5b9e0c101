"""Work: claimed once, by urgency and in turn, and held only as long as the lease."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from headway.codec import replace
from headway.store.port import Store
from headway.store.queries import Claim, WorkQuery
from headway.store.rows import WorkRow
from tests.store.contract.acts import writing
from tests.store.contract.place import ANY_TEXT, AT, KNOWN, LONG_AGO, NEVER, Place, work

SECOND = timedelta(seconds=1)
FULL = work(
    ANY_TEXT,
    state=ANY_TEXT,
    handler=ANY_TEXT,
    priority=-5,
    attempt=3,
    due=LONG_AGO,
    timeout=60_000,
    heartbeat=1,
    lease=5_000,
    affinity=ANY_TEXT,
    concurrency=ANY_TEXT,
    at_once=3,
    rate=ANY_TEXT,
    rate_most=4,
    rate_per=5_000,
    checkpoint=ANY_TEXT,
)
WAITING = [
    work("late"),
    work("soon", due=NEVER, instance="i2"),
    work("urgent", priority=9),
    work("oldest", due=LONG_AGO),
    work("mail", queue="mail", handler="post"),
    work("theirs", tenant="other", due=LONG_AGO),
    work("taken", worker="someone", leased_until=NEVER, started_at=LONG_AGO),
]
PAGES: list[tuple[dict[str, Any], str]] = [
    ({}, "late mail oldest soon taken urgent"),
    ({"queue": "mail"}, "mail"),
    ({"leased": True}, "taken"),
    ({"leased": False, "queue": "default"}, "late oldest soon urgent"),
    ({"ids": ("urgent", "soon", "none", "theirs")}, "soon urgent"),
    ({"ids": ("soon", "taken"), "leased": True}, "taken"),
    ({"ids": ()}, ""),
    ({"limit": 2}, "late mail"),
    ({"after": "mail", "limit": 2}, "oldest soon"),
    ({"after": "n", "queue": "default", "leased": False}, "oldest soon urgent"),
    ({"after": "urgent"}, ""),
]
CLAIMS: list[tuple[dict[str, Any], str]] = [
    ({"tenants": ("acme",)}, "urgent oldest late"),
    ({"tenants": ("acme",), "limit": 2}, "urgent oldest"),
    ({"tenants": ("other",)}, "theirs"),
    ({"queues": ("mail",)}, "mail"),
    ({"queues": ("mail",), "handlers": ("pay",)}, ""),
    ({"queues": ("mail", "default"), "handlers": ("post", "else")}, "mail"),
    ({"queues": ("mail", "default"), "tenants": ("acme",)}, "urgent oldest late mail"),
    ({"queues": ("none",)}, ""),
    ({"queues": ()}, ""),
    ({"tenants": ("nobody",)}, ""),
]


def claim(worker: str = "w", limit: int = 100, **wanted: Any) -> Claim:
    """A claim of the default queue."""
    return Claim(**{"worker": worker, "queues": ("default",), "limit": limit, "versions": KNOWN, **wanted})


def ids(rows: Any) -> list[str]:
    """Which work was claimed."""
    return [row.id for row in rows]


@pytest.mark.mission("ENG-10", "ENG-17")
class WorkContract:
    """Work is claimed by one worker and held by its lease."""

    @pytest.mark.parametrize(("wanted", "expected"), CLAIMS, ids=str)
    async def test_a_claim_takes_what_is_due_and_fits(
        self, store: Store, wanted: dict[str, Any], expected: str
    ) -> None:
        """By queue, handler and tenant, what is due and free; the urgent first, then the longest due."""
        await store.run(writing(work=WAITING))
        assert ids(await store.work.claim(claim(**wanted))) == expected.split()

    async def test_claimed_work_carries_its_lease(self, store: Store) -> None:
        """All columns come back, with the worker, the start, and the end of the lease by the store's time."""
        await store.run(writing(work=[FULL]))
        before = await store.now()
        [row] = await store.work.claim(claim("w1"))
        after = await store.now()
        assert row.started_at
        assert before <= row.started_at <= after
        until = row.started_at + 5 * SECOND
        assert row == replace(FULL, worker="w1", leased_until=until, started_at=row.started_at)
        assert not await store.work.claim(claim("w2"))

    async def test_work_that_is_written_again_can_be_claimed_again(self, store: Store) -> None:
        """A next attempt takes the place of the one before, lease and all."""
        await store.run(writing(work=[work()]))
        await store.work.claim(claim())
        await store.run(writing(work=[work(attempt=2, checkpoint="{}")]))
        [row] = await store.work.claim(claim())
        assert (row.attempt, row.checkpoint) == (2, "{}")

    async def test_a_next_attempt_goes_on_from_the_checkpoint(self, store: Store) -> None:
        """What an attempt has kept outlives it, and whoever has lost the lease keeps nothing."""
        await store.run(writing(work=[work()]))
        await store.work.claim(claim("w"))
        assert await store.work.checkpoint("w", ("acme", "w1", 1), ANY_TEXT)
        await store.run(writing(work=[work(attempt=2)]))
        [row] = await store.work.claim(claim("x"))
        assert (row.attempt, row.checkpoint) == (2, ANY_TEXT)
        late = [("w", 1), ("w", 2), ("x", 1)]
        assert not any([await store.work.checkpoint(name, ("acme", "w1", n), "late") for name, n in late])
        assert not await store.work.checkpoint("x", ("other", "w1", 2), "theirs")
        [row] = await store.work.page(WorkQuery("acme"))
        assert row.checkpoint == ANY_TEXT

    async def test_an_expired_lease_keeps_no_checkpoint(self, store: Store) -> None:
        """A worker that was too slow is told so."""
        past = await store.now() - SECOND
        await store.run(writing(work=[work(worker="w", leased_until=past)]))
        assert not await store.work.checkpoint("w", ("acme", "w1", 1), "late")
        assert [row.checkpoint for row in await store.work.page(WorkQuery("acme"))] == [None]

    async def test_released_work_can_be_claimed_again(self, store: Store) -> None:
        """At once or from a time on, the same attempt; only what the worker held is released."""
        items = [work("a"), work("b"), work("c"), work("x", worker="x", leased_until=NEVER)]
        await store.run(writing(work=items))
        await store.work.claim(claim("w", limit=3))
        assert await store.work.release("w", [("acme", "a", 1), ("acme", "x", 1), ("acme", "b", 2)]) == [
            ("acme", "a")
        ]
        assert await store.work.release("w", [("acme", "b", 1)], NEVER) == [("acme", "b")]
        assert not await store.work.release("w", [("acme", "b", 1), ("other", "c", 1), ("acme", "none", 1)])
        assert not await store.work.extend("w", [("acme", "a", 1)])
        waiting = [row for row in await store.work.page(WorkQuery("acme")) if row.worker is None]
        assert [replace(row, started_at=None) for row in waiting] == [work("a"), work("b", due=NEVER)]
        assert all(row.started_at for row in waiting)
        assert ids(await store.work.claim(claim("y"))) == ["a"]

    async def test_what_belongs_to_instances_is_listed_for_all_tenants(self, store: Store) -> None:
        """By tenant and id, from after one on, each with its instance."""
        items = [work("b"), work("a"), work("a", tenant="other", instance="i9")]
        await store.run(writing(work=items))
        first = await store.instances.owned("work", ("", ""), 2)
        assert [key for key, _ in first] == [("acme", "a"), ("acme", "b")]
        assert await store.instances.owned("work", first[-1][0], 2) == [(("other", "a"), ("other", "i9"))]
        assert [await store.instances.owned(table, ("", ""), 2) for table in ("timer", "ask")] == [[], []]

    async def test_work_whose_lease_has_run_out_is_not_released(self, store: Store) -> None:
        """It is the rescue's to decide."""
        past = await store.now() - SECOND
        await store.run(writing(work=[work(worker="w", leased_until=past)]))
        assert not await store.work.release("w", [("acme", "w1", 1)])
        assert ids(await store.work.expired(10, KNOWN)) == ["w1"]

    async def test_the_next_time_at_which_work_needs_something_is_known(self, store: Store) -> None:
        """The earliest of all due times and ends of leases, in every queue and of every tenant."""
        assert await store.work.next() is None
        expected = [NEVER - n * SECOND for n in range(5)]
        rows = [
            work("a", due=expected[0], queue="z"),
            work("b", due=expected[1], priority=9, concurrency="k"),
            work("c", worker="w", leased_until=expected[2]),
            work("d", due=expected[3], tenant="other"),
            work("e", due=expected[4], affinity="x"),
        ]
        await store.run(writing(work=[work("due", due=AT), work("lost", worker="w", leased_until=AT)]))
        for row, due in zip(rows, expected, strict=True):
            await store.run(
                writing(work=[row, work("late", due=NEVER), work("l", concurrency="k", due=NEVER)])
            )
            assert await store.work.next() == due
        await store.run(writing(work_gone=[("acme", "e"), ("other", "d")]))
        assert await store.work.next() == expected[2]

    @pytest.mark.mission("ENG-14")
    @pytest.mark.parametrize(("wanted", "expected"), PAGES, ids=str)
    async def test_a_list_of_work_holds_what_was_asked_for(
        self, store: Store, wanted: dict[str, Any], expected: str
    ) -> None:
        """Every filter, alone and with others, by id, of one tenant."""
        await store.run(writing(work=WAITING))
        rows = await store.work.page(WorkQuery("acme", **wanted))
        assert ids(rows) == expected.split()
        assert all(row in WAITING for row in rows)

    async def test_work_that_is_gone_cannot_be_claimed(self, store: Store) -> None:
        """Cancelled work disappears, and only that."""
        await store.run(writing(work=[work("a"), work("b"), work("a", tenant="other")]))
        await store.run(writing(work_gone=[("acme", "a"), ("acme", "none")]))
        rows = await store.work.claim(claim())
        assert sorted((row.tenant, row.id) for row in rows) == [("acme", "b"), ("other", "a")]

    async def test_each_item_goes_to_one_claimer(self, place: Place, store: Store) -> None:
        """Twenty workers, in two stores where that is possible, share 200 items and get each once."""
        await store.run(writing(work=[work(f"w{n}", tenant=f"t{n % 3}") for n in range(200)]))
        second = place.store() if place.shared else store
        await second.open()

        async def worker(name: str, at: Store) -> list[WorkRow]:
            got: list[WorkRow] = []
            while rows := await at.work.claim(claim(name, limit=7)):
                assert {row.worker for row in rows} == {name}
                got += rows
            return got

        shares = await asyncio.gather(
            *(worker(f"{n}{at is second}", at) for n in range(10) for at in (store, second))
        )
        if place.shared:
            await second.close()
        assert Counter(row.id for share in shares for row in share) == {f"w{n}": 1 for n in range(200)}

    @pytest.mark.mission("ENG-14")
    @pytest.mark.parametrize("limit", [1, 2, 4])
    async def test_tenants_are_served_in_turn(self, store: Store, limit: int) -> None:
        """A tenant's backlog, however old, does not hold up the others, not even when room is scarce."""
        backlog = [work(f"b{n}", tenant="big", due=LONG_AGO) for n in range(50)]
        await store.run(writing(work=[*backlog, work("s1", tenant="small"), work("t1", tenant="tiny")]))
        served = [row.tenant for _ in range(4 // limit) for row in await store.work.claim(claim(limit=limit))]
        assert {*served} == {"big", "small", "tiny"}

    @pytest.mark.mission("ENG-14")
    async def test_urgency_comes_before_turns(self, store: Store) -> None:
        """A tenant's urgent work is not held up by another's turn."""
        urgent = [work(f"u{n}", tenant="big", priority=1) for n in range(3)]
        await store.run(writing(work=[work("s1", tenant="small", due=LONG_AGO), *urgent]))
        rows = await store.work.claim(claim(limit=3))
        assert {row.tenant for row in rows} == {"big"}

    async def test_only_the_holder_extends_a_lease(self, store: Store) -> None:
        """Another worker, attempt or tenant holds nothing, nor does one whose lease has run out."""
        past, coming = await store.now() - SECOND, await store.now() + timedelta(hours=1)
        await store.run(
            writing(
                work=[
                    work("held", worker="w", leased_until=coming, attempt=2),
                    work("other's", worker="x", leased_until=coming),
                    work("expired", worker="w", leased_until=past),
                    work("waiting"),
                ]
            )
        )
        asked = [("held", 2), ("held", 1), ("other's", 1), ("expired", 1), ("waiting", 1), ("none", 1)]
        items = [("acme", name, attempt) for name, attempt in asked]
        assert await store.work.extend("w", items) == [("acme", "held")]
        assert not await store.work.extend("w", [("other", "held", 2)])
        assert not await store.work.extend("w", [])

    @pytest.mark.mission("ENG-10")
    async def test_an_extended_lease_runs_from_now(self, store: Store) -> None:
        """The lease's own length counts from the extension, so a short one ends a lease early."""
        coming = await store.now() + timedelta(hours=1)
        await store.run(writing(work=[work(worker="w", leased_until=coming, lease=0)]))
        assert not await store.work.expired(10, KNOWN)
        assert await store.work.extend("w", [("acme", "w1", 1)]) == [("acme", "w1")]
        assert ids(await store.work.expired(10, KNOWN)) == ["w1"]

    async def test_only_work_that_waits_for_its_time_is_hastened(self, store: Store) -> None:
        """It can be claimed at once; what is held, due, another attempt or another tenant's stays."""
        coming = await store.now() + timedelta(hours=1)
        rows = [
            work("later", due=coming, attempt=2),
            work("held", due=coming, worker="x", leased_until=NEVER),
            work("next", due=coming, attempt=2),
            work("due", due=LONG_AGO, queue="mail"),
            work("theirs", due=coming, tenant="other"),
        ]
        await store.run(writing(work=rows))
        asked = [("later", 2), ("held", 1), ("next", 1), ("due", 1), ("theirs", 1), ("none", 1)]
        items = [("acme", name, attempt) for name, attempt in asked]
        assert await store.work.hasten(items) == [("acme", "later")]
        assert not await store.work.hasten(items)
        assert not await store.work.hasten([])
        assert ids(await store.work.claim(claim())) == ["later"]
        [due] = await store.work.page(WorkQuery("acme", ids=("due",)))
        assert due.due == LONG_AGO

    async def test_expired_work_is_found_the_longest_first(self, store: Store) -> None:
        """Only what is leased and past its lease, so much as was asked for."""
        now = await store.now()
        rows = [
            work(f"e{n}", worker="w", leased_until=now - n * SECOND, started_at=LONG_AGO) for n in (1, 3, 2)
        ]
        held = work("held", worker="w", leased_until=now + timedelta(hours=1))
        await store.run(writing(work=[*rows, held, work("waiting", due=LONG_AGO)]))
        found = await store.work.expired(10, KNOWN)
        assert ids(found) == ["e3", "e2", "e1"]
        assert found[0] == rows[1]
        assert ids(await store.work.expired(2, KNOWN)) == ["e3", "e2"]
