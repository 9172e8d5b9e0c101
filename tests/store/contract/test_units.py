"""Units: all or nothing, one after the other where they meet, and over again when they collide."""

from __future__ import annotations

from typing import Any

import pytest

from headway.codec import replace
from headway.errors import StoreError
from headway.store.port import Store
from headway.store.queries import MessageQuery, WorkQuery
from headway.store.rows import AskChange, AskClosing, InstanceRow
from headway.store.unit import STORED, Changes, Reads
from tests.store.contract.acts import KEY, Blind, Faulty, Transfer, found, writing
from tests.store.contract.place import (
    ANY_TEXT,
    ASK,
    AT,
    HISTORY,
    INSTANCE,
    KNOWN,
    LONG_AGO,
    MESSAGE,
    NEVER,
    RECORD,
    REQUEST,
    TIMER,
    WORK,
    instance,
)

INSTANCES = {
    "plain": INSTANCE,
    "any text": replace(
        INSTANCE,
        tenant=ANY_TEXT,
        id=ANY_TEXT,
        chart=ANY_TEXT,
        status=ANY_TEXT,
        parent=ANY_TEXT,
        owner=ANY_TEXT,
        ended=True,
    ),
    "extremes": replace(
        INSTANCE, seq=2**31 - 1, created_at=LONG_AGO, updated_at=NEVER, snapshot="x" * 300_000
    ),
    "empty texts": replace(INSTANCE, tenant="", id="", chart="", status="", parent="", owner="", snapshot=""),
}
EVERYTHING: dict[str, Any] = {
    "created": [INSTANCE],
    "history": [HISTORY],
    "timers": [TIMER],
    "work": [WORK],
    "asks": [ASK],
    "asks_changed": [AskChange("acme", "a1", ("chief",), "ann")],
    "asks_closed": [AskClosing("acme", "a1", AT, "ann", "approve")],
    "messages": [MESSAGE],
    "requests": [REQUEST],
    "records": [RECORD],
    "counters": {("acme", "n"): 1},
}
ALL_KEYS: dict[str, Any] = {
    "instances": {KEY},
    "requests": {("acme", "r1")},
    "records": {("acme", "plan", "p1")},
    "counters": {("acme", "n")},
}


async def is_empty(store: Store) -> bool:
    """Whether a store holds nothing of `EVERYTHING` that can be read."""
    seen = await found(store, **ALL_KEYS)
    rest = [
        await store.history.page(KEY),
        await store.timers.due(10, KNOWN),
        await store.timers.next(KNOWN),
        await store.work.page(WorkQuery(tenant="acme")),
        await store.asks.get(("acme", "a1")),
        (await store.messages.page(MessageQuery())).messages,
    ]
    return not any([seen.instances, seen.requests, seen.records, seen.counters, *rest])


@pytest.mark.mission("ENG-3", "ENG-4", "ENG-17")
class TestUnits:
    """A unit runs in one transaction."""

    @pytest.mark.parametrize("row", INSTANCES.values(), ids=INSTANCES)
    async def test_an_instance_comes_back_as_it_went_in(self, store: Store, row: InstanceRow) -> None:
        """Every column survives, by a query as in a unit."""
        key = (row.tenant, row.id)
        await store.run(writing(created=[row]))
        assert await store.instances.get(key) == row
        assert (await found(store, instances={key})).instances == {key: row}

    async def test_a_unit_that_wants_nothing_changes_nothing(self, store: Store) -> None:
        """An empty unit is a unit."""
        await store.run(writing())
        assert await is_empty(store)

    async def test_what_was_asked_for_and_is_not_there_is_absent(self, store: Store) -> None:
        """A key without a row is no entry in what was found."""
        seen = await found(store, **ALL_KEYS)
        assert not any([seen.instances, seen.requests, seen.records, seen.counters])

    @pytest.mark.parametrize("count", [1, 10, 256])
    async def test_many_keys_are_found_at_once(self, store: Store, count: int) -> None:
        """A unit may ask for one row or for hundreds, some of which are not there."""
        rows = [instance(f"{ANY_TEXT}{n}") for n in range(count)]
        await store.run(writing(created=rows))
        keys = {("acme", row.id) for row in rows}
        seen = await found(store, instances=keys | {("acme", "none")})
        assert seen.instances == {("acme", row.id): row for row in rows}

    async def test_an_update_sets_the_whole_row(self, store: Store) -> None:
        """All that can change in an instance's life changes together."""
        await store.run(writing(created=[INSTANCE]))
        for step, ended in enumerate((False, True), 2):
            changed = replace(
                INSTANCE, version=step, seq=step, status="s", ended=ended, updated_at=NEVER, snapshot="[]"
            )
            await store.run(writing(updated=[changed]))
            assert await store.instances.get(KEY) == changed

    async def test_an_update_of_what_is_not_there_is_no_success(self, store: Store) -> None:
        """A change that would be lost raises, and takes the rest of its unit with it."""
        with pytest.raises(StoreError):
            await store.run(writing(updated=[INSTANCE], history=[HISTORY]))
        assert await is_empty(store)

    async def test_a_unit_reads_in_rounds_at_one_time(self, store: Store) -> None:
        """Each round answers what it was asked, all of a unit happens at the same time, and that is now."""
        await store.run(writing(created=[instance("a", snapshot="5"), instance("b", snapshot="5")]))
        before = await store.now()
        transfer = Transfer("a", "b")
        await store.run(transfer)
        first, second = transfer.found
        assert [*first.instances] == [("acme", "a")]
        assert [*second.instances] == [("acme", "b")]
        assert before <= first.now == second.now <= await store.now()

    async def test_records_are_replaced_and_counters_add_up(self, store: Store) -> None:
        """A record is its last writing, a counter the sum of its changes, also within one unit."""
        for amount in (5, -7, 3):
            record = replace(RECORD, data=ANY_TEXT + str(amount), updated_at=NEVER)
            await store.run(writing(records=[record], counters={("acme", "n"): amount, ("acme", "m"): 1}))
        seen = await found(store, **{**ALL_KEYS, "counters": {("acme", "n"), ("acme", "m")}})
        assert seen.records == {("acme", "plan", "p1"): record}
        assert seen.counters == {("acme", "n"): 1, ("acme", "m"): 3}

    async def test_what_is_set_and_taken_back_in_one_unit_is_gone(self, store: Store) -> None:
        """Several steps of an instance in one unit may undo each other."""
        key = ("acme", "t1")
        await store.run(writing(timers=[TIMER], timers_gone=[key], work=[WORK], work_gone=[("acme", "w1")]))
        assert await store.timers.next(KNOWN) is None
        await store.run(writing(timers_gone=[key]))

    @pytest.mark.parametrize("where", ["begin", "take", "changes"])
    @pytest.mark.parametrize("error", [ValueError("mine"), StopIteration(), StoreError("mine too")])
    async def test_an_error_of_the_unit_is_the_callers(
        self, store: Store, where: str, error: Exception
    ) -> None:
        """A unit that raises leaves nothing behind, and the next one runs."""
        with pytest.raises((type(error), RuntimeError)) as raised:
            await store.run(Faulty(where, error))
        assert error in {raised.value, raised.value.__cause__}
        assert await is_empty(store)
        await store.run(writing(**EVERYTHING))
        assert await store.instances.get(KEY) == INSTANCE

    def test_the_contract_knows_every_list_of_changes(self) -> None:
        """Who adds a list says here what a store does with it."""
        elsewhere = {"updated", "timers_gone", "work_versions", "work_gone", "asks_renewed"}
        assert {*EVERYTHING} | elsewhere == {*STORED}

    async def test_a_unit_is_written_whole_or_not_at_all(self, store: Store) -> None:
        """When the last of its changes cannot be written, none of the others is."""
        taken = replace(REQUEST, key="taken")
        await store.run(writing(requests=[taken]))
        with pytest.raises(StoreError):
            await store.run(writing(**{**EVERYTHING, "requests": [REQUEST, taken]}))
        assert await is_empty(store)
        await store.run(writing(**EVERYTHING))
        assert len(await store.history.page(KEY)) == 1

    async def test_a_unit_that_collides_starts_over_and_sees_why(self, store: Store) -> None:
        """An instance or a request id that is there already makes a unit begin again."""
        await store.run(writing(created=[INSTANCE], requests=[REQUEST]))
        for changes in (Changes(created=[INSTANCE]), Changes(requests=[REQUEST])):
            unit = Blind(Reads(instances={KEY}, requests={("acme", "r1")}), changes)
            await store.run(unit)
            assert unit.seen
            assert unit.seen.instances == {KEY: INSTANCE}
            assert unit.seen.requests == {("acme", "r1"): REQUEST}

    async def test_a_unit_that_always_collides_ends(self, store: Store) -> None:
        """Starting over has a limit."""
        await store.run(writing(created=[INSTANCE]))
        unit = writing(created=[INSTANCE], history=[HISTORY])
        with pytest.raises(StoreError):
            await store.run(unit)
        assert 1 < unit.begun < 100
        assert not await store.history.page(KEY)

    @pytest.mark.mission("ENG-14")
    async def test_a_unit_sees_only_the_tenant_it_asks_for(self, store: Store) -> None:
        """The same ids in two tenants are different rows."""
        other = replace(INSTANCE, tenant="other", snapshot="theirs")
        await store.run(
            writing(
                created=[INSTANCE, other],
                requests=[REQUEST, replace(REQUEST, tenant="other", answer="theirs")],
                records=[RECORD, replace(RECORD, tenant="other", data="theirs")],
                counters={("acme", "n"): 1, ("other", "n"): 100},
            )
        )
        await store.run(writing(updated=[replace(INSTANCE, status="review")], counters={("acme", "n"): 1}))
        seen = await found(store, **ALL_KEYS)
        assert [row.status for row in seen.instances.values()] == ["review"]
        assert [*seen.counters.values()] == [2]
        assert [*seen.requests.values()] == [REQUEST]
        assert [*seen.records.values()] == [RECORD]
        assert await store.instances.get(("other", "i1")) == other
