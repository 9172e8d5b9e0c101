"""Timers that come due."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.store.port import Store
from headway.store.queries import (
    TimerQuery,
)
from tests.store.contract.acts import writing
from tests.store.contract.clocks import minute
from tests.store.contract.place import (
    ANY_TEXT,
    AT,
    KNOWN,
    LONG_AGO,
    NEVER,
    Place,
    timer,
)

SECOND = timedelta(seconds=1)
V1, V2, OTHER = ("expense", 1), ("expense", 2), ("claim", 1)


@pytest.mark.mission("ENG-9", "ENG-17")
class TestTimers:
    """Timers are found when they are due."""

    async def test_due_timers_come_in_due_order(self, store: Store) -> None:
        """The longest overdue first, of all tenants, none that is to come, so many as were asked for."""
        now = await store.now()
        rows = [
            timer("c", due=now - SECOND),
            timer("a", due=now - 3 * SECOND, tenant="other", event=ANY_TEXT),
            timer("b", due=LONG_AGO),
            timer("d", due=now + timedelta(hours=1)),
        ]
        await store.run(writing(timers=rows))
        assert await store.timers.due(10, KNOWN) == [rows[2], rows[1], rows[0]]
        assert await store.timers.due(2, KNOWN) == [rows[2], rows[1]]

    async def test_the_next_timer_is_known(self, store: Store) -> None:
        """The earliest due time of all, as long as there is a timer."""
        assert await store.timers.next(KNOWN) is None
        await store.run(writing(timers=[timer("a", due=NEVER)]))
        assert await store.timers.next(KNOWN) == NEVER
        await store.run(writing(timers=[timer("b", due=LONG_AGO, tenant="other")]))
        assert await store.timers.next(KNOWN) == LONG_AGO
        await store.run(writing(timers_gone=[("acme", "a"), ("acme", "b"), ("other", "b")]))
        assert await store.timers.next(KNOWN) is None

    async def test_a_timer_that_is_set_again_moves(self, store: Store) -> None:
        """A timer's id stands for one timer."""
        for due in (LONG_AGO, NEVER):
            await store.run(writing(timers=[timer(due=due)]))
        assert not await store.timers.due(10, KNOWN)
        assert await store.timers.next(KNOWN) == NEVER

    @pytest.mark.mission("ENG-14")
    async def test_a_tenants_timers_are_listed_in_due_order(self, store: Store) -> None:
        """In pages, those of one time by id; only those that were asked for, and no other tenant's."""
        rows = [timer("b", due=LONG_AGO), timer("c", due=LONG_AGO), timer("a", due=AT), timer("d", due=NEVER)]
        await store.run(writing(timers=[*reversed(rows), timer("z", due=LONG_AGO, tenant="other")]))
        assert await store.timers.page(TimerQuery("acme")) == rows
        assert await store.timers.page(TimerQuery("acme", limit=2)) == rows[:2]
        assert await store.timers.page(TimerQuery("acme", after=(LONG_AGO, "b"), limit=2)) == rows[1:3]
        assert await store.timers.page(TimerQuery("acme", after=(NEVER, "d"))) == []
        assert await store.timers.page(TimerQuery("acme", ids=("d", "b", "z", "none"))) == [rows[0], rows[3]]
        assert await store.timers.page(TimerQuery("acme", ids=("a", "b"), after=(LONG_AGO, "b"))) == [rows[2]]
        assert await store.timers.page(TimerQuery("acme", ids=())) == []

    @pytest.mark.mission("ENG-14")
    async def test_a_timer_of_another_tenant_stays(self, store: Store) -> None:
        """Timers with one id in two tenants are two timers."""
        await store.run(writing(timers=[timer(), timer(tenant="other")]))
        await store.run(writing(timers_gone=[("acme", "t1")]))
        assert await store.timers.due(10, KNOWN) == [timer(tenant="other")]


@pytest.mark.mission("ENG-21", "ENG-17")
class TestVersions:
    """Timers go to nodes that know the version of their instance."""

    async def test_timers_of_unknown_versions_are_neither_due_nor_next(self, store: Store) -> None:
        """Those who do not know them find the others, in due order."""
        now = await store.now()
        rows = [
            timer("a", due=LONG_AGO, version=2),
            timer("b", due=now - 2 * SECOND),
            timer("c", due=now - 3 * SECOND, chart="claim"),
            timer("d", due=NEVER, version=3),
        ]
        await store.run(writing(timers=rows))
        assert await store.timers.due(10, [V1, OTHER]) == [rows[2], rows[1]]
        assert await store.timers.due(1, [V1, OTHER, V2]) == [rows[0]]
        assert await store.timers.due(10, []) == []
        assert await store.timers.next([V1, OTHER]) == rows[2].due
        assert await store.timers.next([("expense", 3)]) == NEVER
        assert await store.timers.next([]) is None


@pytest.mark.mission("ENG-17")
class TestDurations:
    """What lasts until a time lasts until just before it; what is due at a time is due at it."""

    @pytest.mark.mission("ENG-9")
    async def test_a_timer_is_due_at_its_time(self, place: Place) -> None:
        """It is found then, and not before."""
        async with minute(place) as at:
            await at.store.run(writing(timers=[timer(due=at.end)]))
            at.almost()
            assert not await at.store.timers.due(10, KNOWN)
            at.exactly()
            assert await at.store.timers.due(10, KNOWN) == [timer(due=at.end)]
