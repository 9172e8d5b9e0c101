"""Timers that come due, and request ids that have had their time."""

# ruff: noqa: S101 - these are tests: pytest is built on assert, and a number is the expectation itself

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.codec import replace
from headway.store.port import Store
from headway.testing.store_contract.acts import found, writing
from headway.testing.store_contract.place import ANY_TEXT, LONG_AGO, NEVER, REQUEST, timer

SECOND = timedelta(seconds=1)


@pytest.mark.mission("ENG-9", "ENG-17")
class UpkeepContract:
    """What the engine does by itself."""

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
        assert await store.due_timers(10) == [rows[2], rows[1], rows[0]]
        assert await store.due_timers(2) == [rows[2], rows[1]]

    async def test_the_next_timer_is_known(self, store: Store) -> None:
        """The earliest due time of all, as long as there is a timer."""
        assert await store.next_timer() is None
        await store.run(writing(timers=[timer("a", due=NEVER)]))
        assert await store.next_timer() == NEVER
        await store.run(writing(timers=[timer("b", due=LONG_AGO, tenant="other")]))
        assert await store.next_timer() == LONG_AGO
        await store.run(writing(timers_gone=[("acme", "a"), ("acme", "b"), ("other", "b")]))
        assert await store.next_timer() is None

    async def test_a_timer_that_is_set_again_moves(self, store: Store) -> None:
        """A timer's id stands for one timer."""
        for due in (LONG_AGO, NEVER):
            await store.run(writing(timers=[timer(due=due)]))
        assert not await store.due_timers(10)
        assert await store.next_timer() == NEVER

    @pytest.mark.mission("ENG-14")
    async def test_a_timer_of_another_tenant_stays(self, store: Store) -> None:
        """Timers with one id in two tenants are two timers."""
        await store.run(writing(timers=[timer(), timer(tenant="other")]))
        await store.run(writing(timers_gone=[("acme", "t1")]))
        assert await store.due_timers(10) == [timer(tenant="other")]

    @pytest.mark.mission("ENG-6")
    async def test_only_expired_request_ids_are_pruned(self, store: Store) -> None:
        """So many as were asked for at a time, until none is left; those that count stay."""
        past = await store.now() - SECOND
        expired = [replace(REQUEST, key=f"old{n}", expires_at=past) for n in range(5)]
        await store.run(writing(requests=[REQUEST, *expired]))
        assert [await store.prune(3) for _ in range(3)] == [3, 2, 0]
        assert (await found(store, requests={("acme", "r1")})).requests == {("acme", "r1"): REQUEST}
