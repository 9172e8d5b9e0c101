"""Timers that come due, and rows that have had their time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headway.codec import replace
from headway.store.port import Store
from headway.store.queries import (
    AskQuery,
    InstanceQuery,
    MessageQuery,
    Settlement,
    TimerQuery,
)
from headway.store.rows import AskClosing, Cursor, InstanceRow
from tests.store.contract.acts import found, writing
from tests.store.contract.place import (
    ANY_TEXT,
    ASK,
    AT,
    HISTORY,
    KNOWN,
    LONG_AGO,
    NEVER,
    REQUEST,
    instance,
    message,
    timer,
)

SECOND = timedelta(seconds=1)
HOUR = 3_600_000


async def settled(store: Store, consumer: str, cursor: Cursor) -> None:
    """A consumer that has come so far."""
    await store.leases.hold([("", consumer)], "n1", HOUR)
    assert await store.messages.settle(Settlement(consumer, "n1", cursor))


async def ids_of_instances(store: Store, tenant: str = "acme") -> list[str]:
    """Which instances a tenant has."""
    return [row.id for row in await store.instances.page(InstanceQuery(tenant=tenant))]


async def lives(store: Store, *rows: InstanceRow) -> None:
    """Write instances, each with two lines of history and an ask that was answered."""
    for row in rows:
        of = {"tenant": row.tenant, "instance": row.id}
        ask = replace(ASK, id=f"ask of {row.id}", **of)
        lines = [replace(HISTORY, seq=seq, **of) for seq in (1, 2)]
        closing = AskClosing(ask.tenant, ask.id, AT, "ann", "approve")
        await store.run(writing(created=[row], history=lines, asks=[ask], asks_closed=[closing]))


@pytest.mark.mission("ENG-9", "ENG-17")
class TimersContract:
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


@pytest.mark.mission("ENG-17")
class PruningContract:
    """What is no longer needed is deleted, a bounded number at a time, and nothing else."""

    @pytest.mark.mission("ENG-6")
    async def test_only_expired_request_ids_are_pruned(self, store: Store) -> None:
        """So many as were asked for at a time, until none is left; those that count stay."""
        past = await store.now() - SECOND
        expired = [replace(REQUEST, key=f"old{n}", expires_at=past) for n in range(5)]
        await store.run(writing(requests=[REQUEST, *expired]))
        assert [await store.requests.prune(3) for _ in range(3)] == [3, 2, 0]
        assert (await found(store, requests={("acme", "r1")})).requests == {("acme", "r1"): REQUEST}

    @pytest.mark.mission("ENG-5")
    async def test_old_messages_are_pruned_once_all_consumers_are_past(self, store: Store) -> None:
        """The slowest consumer decides, and the time; what is left is read on as if nothing had happened."""
        await store.run(writing(messages=[message(f"m{n}", at=AT + n * SECOND) for n in range(8)]))
        sent = (await store.messages.page(MessageQuery())).messages
        await settled(store, "fast", sent[7].cursor)
        await settled(store, "slow", sent[4].cursor)
        assert await store.messages.prune(AT, 10) == 0
        assert await store.messages.prune(AT + 3 * SECOND, 10) == 3
        assert [await store.messages.prune(NEVER, 1) for _ in range(3)] == [1, 1, 0]
        assert (await store.messages.page(MessageQuery())).messages == sent[5:]
        await settled(store, "slow", sent[7].cursor)
        assert await store.messages.prune(NEVER, 10) == 3
        await store.run(writing(messages=[message("next")]))
        [after] = (await store.messages.page(MessageQuery(after=sent[7].cursor))).messages
        assert after.id == "next"

    @pytest.mark.mission("ENG-5")
    async def test_messages_that_nobody_consumes_are_pruned_by_time(self, store: Store) -> None:
        """Without a consumer there is nobody to wait for."""
        await store.run(writing(messages=[message("old", at=LONG_AGO), message("new")]))
        assert await store.messages.prune(AT, 10) == 1
        assert [row.id for row in (await store.messages.page(MessageQuery())).messages] == ["new"]

    @pytest.mark.mission("ENG-7")
    async def test_instances_that_ended_long_ago_are_pruned_with_all_they_had(self, store: Store) -> None:
        """History and asks go with them; those that live, ended later, or are of another tenant's id stay."""
        old = {"ended": True, "updated_at": AT - SECOND}
        gone = [instance(f"gone{n}", **old) for n in range(3)]
        kept = [instance("late", ended=True, updated_at=AT), instance("live", updated_at=LONG_AGO)]
        await lives(store, *gone, *kept, instance("gone0", tenant="other", updated_at=LONG_AGO))
        assert [await store.instances.prune(AT, 2) for _ in range(3)] == [2, 1, 0]
        assert await ids_of_instances(store) == ["late", "live"]
        for row in gone:
            assert not await store.history.page((row.tenant, row.id))
            assert not await store.history.pruned((row.tenant, row.id))
            assert not await store.asks.get((row.tenant, f"ask of {row.id}"))
            assert not await store.asks.page(AskQuery(tenant="acme", instance=row.id, open=False))
        for row in kept:
            assert len(await store.history.page((row.tenant, row.id))) == 2
            assert await store.asks.get((row.tenant, f"ask of {row.id}"))
        assert len(await store.history.page(("other", "gone0"))) == 2

    @pytest.mark.mission("ENG-7")
    async def test_instances_of_one_chart_are_pruned(self, store: Store) -> None:
        """Each chart may have its own time to keep; the one that ended first goes first, of all tenants."""
        old = {"ended": True, "chart": "leave"}
        rows = [
            instance("b", updated_at=AT - SECOND, **old),
            instance("a", updated_at=LONG_AGO, **old),
            instance("x", updated_at=LONG_AGO, ended=True),
            instance("c", updated_at=LONG_AGO, tenant="other", **old),
        ]
        await lives(store, *rows)
        assert await store.instances.prune(AT, 10, chart="none") == 0
        assert await store.instances.prune(AT, 2, chart="leave") == 2
        assert (await ids_of_instances(store), await ids_of_instances(store, "other")) == (["b", "x"], [])
        assert await store.instances.prune(AT, 10, chart="leave") == 1
        assert await store.instances.prune(AT, 10) == 1
