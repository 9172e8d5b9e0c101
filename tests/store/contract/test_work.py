"""Work: claimed once, by urgency and in turn, and held only as long as the lease."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest

from headway.codec import replace
from headway.store.port import Store
from headway.store.queries import Claim, WorkQuery
from headway.store.rows import Version, WorkRow, WorkVersion
from tests.store.contract.acts import writing
from tests.store.contract.clocks import MINUTE, Moment, minute, timed
from tests.store.contract.place import (
    ANY_TEXT,
    AT,
    KNOWN,
    LONG_AGO,
    NEVER,
    Place,
    work,
)

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
V1, V2, OTHER = ("expense", 1), ("expense", 2), ("claim", 1)
ATTEMPT = ("acme", "w1", 1)


def claim(worker: str = "w", limit: int = 100, **wanted: Any) -> Claim:
    """A claim of the default queue."""
    return Claim(**{"worker": worker, "queues": ("default",), "limit": limit, "versions": KNOWN, **wanted})


def ids(rows: Any) -> list[str]:
    """Which work was claimed."""
    return [row.id for row in rows]


def claim_of(*versions: Version, worker: str = "w") -> Claim:
    """A claim of a worker that knows some versions."""
    return Claim(worker, ("default",), 100, versions)


def leased(at: Moment, **fields: Any) -> Any:
    """Work that a worker holds until the end."""
    return work(worker="w", leased_until=at.end, lease=MINUTE, **fields)


@pytest.mark.mission("ENG-10", "ENG-17")
class TestWork:
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

    @pytest.mark.mission("ENG-14")
    @pytest.mark.parametrize("due", [LONG_AGO, AT], ids=["due", "just due"])
    async def test_one_id_in_two_tenants_is_two_items(self, place: Place, due: datetime) -> None:
        """What is claimed, extended, kept and handed back for one tenant leaves the other's as it is."""
        async with timed(place) as (store, clock):
            later = clock.now() + SECOND if due == AT else due
            theirs = work("a", tenant="other", due=later, handler="post")
            await store.run(writing(work=[work("a", due=later), theirs]))
            clock.advance("1s")
            [mine] = await store.work.claim(claim(tenants=("acme",)))
            assert mine.handler == "pay"
            assert await store.work.checkpoint("w", ("acme", "a", 1), "1")
            assert await store.work.extend("w", [("acme", "a", 1)]) == [("acme", "a")]
            assert await store.work.page(WorkQuery("other")) == [theirs]
            assert ids(await store.work.claim(claim("x", tenants=("other",), handlers=("post",)))) == ["a"]
            assert await store.work.release("w", [("acme", "a", 1)]) == [("acme", "a")]
            [held] = await store.work.page(WorkQuery("other"))
            assert (held.worker, held.checkpoint) == ("x", None)
            assert await store.work.next() == held.leased_until

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


@pytest.mark.mission("ENG-21", "ENG-17")
class TestVersions:
    """Work goes to workers that know the version of its instance."""

    async def test_a_claim_gets_work_of_the_versions_it_knows(self, store: Store) -> None:
        """However much of other versions waits before it, limited or not."""
        limits: tuple[dict[str, Any], ...] = (
            {},
            {"concurrency": "key", "at_once": 9},
            {"rate": "key", "rate_most": 9},
        )
        rows = [
            work(f"w{number}{kind}", due=LONG_AGO, chart=chart, version=version, **limited)
            for kind, (chart, version) in enumerate((V1, V2, OTHER))
            for number, limited in enumerate(limits)
        ]
        await store.run(writing(work=rows))
        assert not await store.work.claim(claim_of())
        assert not await store.work.claim(claim_of(("expense", 3)))
        assert sorted(row.id for row in await store.work.claim(claim_of(V2))) == ["w01", "w11", "w21"]
        taken = [row.id for row in await store.work.claim(claim_of(V1, OTHER))]
        assert sorted(taken) == ["w00", "w02", "w10", "w12", "w20", "w22"]

    async def test_lost_work_of_unknown_versions_is_not_found(self, store: Store) -> None:
        """Who could not tell its instance does not see it."""
        rows = [work("w1", lease=0), work("w2", lease=0, version=2)]
        await store.run(writing(work=rows))
        await store.work.claim(claim_of(V1, V2))
        assert [row.id for row in await store.work.expired(10, [V2])] == ["w2"]
        assert [row.id for row in await store.work.expired(10, [V1, V2])] == ["w1", "w2"]
        assert not await store.work.expired(10, [])

    @pytest.mark.mission("ENG-19")
    async def test_work_follows_the_version_of_its_instance(self, store: Store) -> None:
        """Waiting work can be claimed by those who know the new version; held work stays held."""
        rows = [work("held", priority=1), work("waits"), work("gone"), work("other")]
        await store.run(writing(work=rows))
        [held] = await store.work.claim(replace(claim_of(V1), limit=1))
        changes = [WorkVersion("acme", id_, 2) for id_ in ("held", "waits", "gone", "none")]
        changes.append(WorkVersion("stranger", "other", 2))
        await store.run(writing(work_versions=changes, work_gone=[("acme", "gone")]))
        left = {row.id: row for row in await store.work.page(WorkQuery("acme"))}
        assert {id_: row.version for id_, row in left.items()} == {"held": 2, "other": 1, "waits": 2}
        assert left["held"] == replace(held, version=2)
        assert [row.id for row in await store.work.claim(claim_of(V2))] == ["waits"]

    async def test_work_that_is_written_with_its_version_has_it(self, store: Store) -> None:
        """A new attempt in the same unit takes the place of what was there."""
        await store.run(writing(work=[work("w1")]))
        change = WorkVersion("acme", "w1", 2)
        await store.run(writing(work=[work("w1", attempt=2, version=2)], work_versions=[change]))
        assert [(row.version, row.attempt) for row in await store.work.claim(claim_of(V2))] == [(2, 2)]


@pytest.mark.mission("ENG-17")
class TestDurations:
    """What lasts until a time lasts until just before it; what is due at a time is due at it."""

    @pytest.mark.mission("ENG-10")
    @pytest.mark.parametrize("limits", [{}, {"concurrency": "k"}, {"rate": "r"}], ids=str)
    async def test_work_is_due_at_its_time(self, place: Place, limits: dict[str, Any]) -> None:
        """It is claimed then, and not before, with a limit as without; until then its time is the next."""
        async with minute(place) as at:
            await at.store.run(writing(work=[work(due=at.end, **limits)]))
            at.almost()
            assert not await at.store.work.claim(claim())
            assert await at.store.work.next() == at.end
            at.exactly()
            assert await at.store.work.next() is None
            assert ids(await at.store.work.claim(claim())) == ["w1"]

    @pytest.mark.mission("ENG-10")
    async def test_work_that_was_handed_back_is_due_at_its_time(self, place: Place) -> None:
        """It is claimed from the time on that it was handed back for."""
        async with minute(place) as at:
            await at.store.run(writing(work=[work(lease=2 * MINUTE)]))
            await at.store.work.claim(claim("w"))
            assert await at.store.work.release("w", [ATTEMPT], at.end)
            at.almost()
            assert not await at.store.work.claim(claim("x"))
            at.exactly()
            assert ids(await at.store.work.claim(claim("x"))) == ["w1"]

    @pytest.mark.mission("ENG-10")
    async def test_work_is_hastened_until_it_is_due(self, place: Place) -> None:
        """What is due now needs no haste and keeps its due time."""
        async with minute(place) as at:
            await at.store.run(writing(work=[work("w1", due=at.end), work("w2", due=at.end)]))
            almost = at.almost()
            assert await at.store.work.hasten([ATTEMPT]) == [("acme", "w1")]
            [row] = await at.store.work.claim(claim())
            assert (row.id, row.due) == ("w1", almost)
            at.exactly()
            assert not await at.store.work.hasten([("acme", "w2", 1)])

    @pytest.mark.mission("ENG-10")
    async def test_work_is_lost_at_the_end_of_its_lease(self, place: Place) -> None:
        """It is rescued then, and not before; until then the end of its lease is the next time."""
        async with minute(place) as at:
            await at.store.run(writing(work=[work(lease=MINUTE)]))
            await at.store.work.claim(claim())
            at.almost()
            assert not await at.store.work.expired(10, KNOWN)
            assert await at.store.work.next() == at.end
            at.exactly()
            assert ids(await at.store.work.expired(10, KNOWN)) == ["w1"]
            assert await at.store.work.next() is None

    @pytest.mark.mission("ENG-10")
    async def test_an_extended_lease_of_work_ends_a_lease_later(self, place: Place) -> None:
        """An extension at the last moment lasts for the whole lease; one at the end comes too late."""
        async with minute(place) as at:
            await at.store.run(writing(work=[leased(at)]))
            at.almost()
            assert await at.store.work.extend("w", [ATTEMPT]) == [("acme", "w1")]
            at.almost_again()
            assert not await at.store.work.expired(10, KNOWN)
            at.exactly_again()
            assert ids(await at.store.work.expired(10, KNOWN)) == ["w1"]
            assert not await at.store.work.extend("w", [ATTEMPT])

    @pytest.mark.mission("ENG-10")
    async def test_a_worker_holds_work_until_the_end_of_its_lease(self, place: Place) -> None:
        """It keeps checkpoints and hands work back before, and neither at the end."""
        async with minute(place) as at:
            second = ("acme", "w2", 1)
            await at.store.run(writing(work=[leased(at), leased(at, id="w2")]))
            at.almost()
            assert await at.store.work.checkpoint("w", ATTEMPT, "kept")
            assert await at.store.work.release("w", [ATTEMPT]) == [("acme", "w1")]
            at.exactly()
            assert not await at.store.work.checkpoint("w", second, "late")
            assert not await at.store.work.release("w", [second])
