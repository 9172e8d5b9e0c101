"""Asks: who finds which, from the moment they are opened until they are closed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headway.codec import replace
from headway.store.port import Store
from headway.store.queries import AskQuery
from headway.store.rows import AskChange, AskClosing, AskRow
from tests.store.contract.acts import writing
from tests.store.contract.place import ANY_TEXT, ASK, AT, LONG_AGO, NEVER

KEY = ("acme", "a1")
SECOND = timedelta(seconds=1)
CLOSING = AskClosing("acme", "a1", closed_at=AT + SECOND, closed_by='{"id":"ann"}', closed_event="approve")
DELEGATED = AskChange("acme", "a1", roles=("manager",), delegated_to="bob")
CLAIMED = AskChange("acme", "a1", roles=("manager",), claimed_by="ann", claimed_until=AT + SECOND)
FULL = AskRow(
    tenant=ANY_TEXT,
    id=ANY_TEXT,
    instance=ANY_TEXT,
    state=ANY_TEXT,
    roles=(ANY_TEXT, ""),
    answers=(ANY_TEXT,),
    form=ANY_TEXT,
    shows=ANY_TEXT,
    opened_at=LONG_AGO,
    deadline=NEVER,
)


def ask(id: str = "a1", **fields: Any) -> AskRow:  # noqa: A002 - the row's own word
    """An ask like any other, but for these fields."""
    return replace(ASK, id=id, **fields)


OPENED = [
    ask("e", opened_at=AT, roles=("manager",)),
    ask("a", opened_at=AT + SECOND, roles=("manager", "chief")),
    ask("c", opened_at=AT, roles=("chief",), instance="i2"),
    ask("d", opened_at=AT + 2 * SECOND, roles=("clerk",), instance="i2"),
    ask("b", opened_at=AT + 3 * SECOND, roles=("manager",), delegated_to="bob"),
    ask("f", opened_at=AT + 4 * SECOND, roles=()),
    ask("g", opened_at=AT + 5 * SECOND, roles=("manager",)),
    ask("h", opened_at=AT + 6 * SECOND, roles=("manager",), delegated_to="bob"),
    ask("a", tenant="other", roles=("manager", "chief", "clerk")),
]
CLOSED = [replace(CLOSING, id=name) for name in "gh"]
QUERIES: list[tuple[dict[str, Any], str]] = [
    ({}, "ceadbf"),
    ({"roles": ("manager",)}, "ea"),
    ({"roles": ("manager", "chief")}, "cea"),
    ({"roles": ("manager", "manager")}, "ea"),
    ({"roles": ("nobody",)}, ""),
    ({"person": "bob"}, "b"),
    ({"person": "ann"}, ""),
    ({"roles": ("clerk",), "person": "bob"}, "db"),
    ({"roles": ("@bob",)}, ""),
    ({"instance": "i2"}, "cd"),
    ({"instance": "i2", "roles": ("chief", "manager")}, "c"),
    ({"instance": "i1", "person": "bob"}, "b"),
    ({"instance": "none"}, ""),
    ({"limit": 2}, "ce"),
    ({"limit": 2, "roles": ("manager", "chief", "clerk")}, "ce"),
    ({"after": "e"}, "adbf"),
    ({"after": "e", "roles": ("manager", "chief")}, "a"),
    ({"after": "c", "roles": ("manager", "chief"), "limit": 1}, "e"),
    ({"after": "c", "instance": "i2"}, "d"),
    ({"after": "f"}, ""),
    ({"after": "none"}, ""),
    ({"open": False}, "gh"),
    ({"open": False, "roles": ("manager",)}, "g"),
    ({"open": False, "person": "bob"}, "h"),
    ({"open": False, "after": "g"}, "h"),
    ({"open": False, "instance": "i2"}, ""),
]


async def inbox(store: Store, *roles: str, person: str | None = None) -> str:
    """The asks somebody finds."""
    return "".join(row.id for row in await store.asks.page(AskQuery("acme", roles=roles, person=person)))


@pytest.mark.mission("ENG-8", "ENG-17")
class TestAsks:
    """An open ask is found by those it is for, and by nobody else."""

    @pytest.mark.parametrize("row", [ASK, FULL], ids=["plain", "any text"])
    async def test_an_ask_comes_back_as_it_went_in(self, store: Store, row: AskRow) -> None:
        """Every column survives, alone and in a list."""
        await store.run(writing(asks=[row]))
        assert await store.asks.get((row.tenant, row.id)) == row
        assert await store.asks.page(AskQuery(row.tenant)) == [row]

    @pytest.mark.parametrize(("wanted", "ids"), QUERIES, ids=str)
    @pytest.mark.mission("ENG-14")
    async def test_a_list_of_asks_holds_what_was_asked_for(
        self, store: Store, wanted: dict[str, Any], ids: str
    ) -> None:
        """Every filter, alone and with others, the oldest first, of one tenant."""
        await store.run(writing(asks=OPENED, asks_closed=CLOSED))
        rows = await store.asks.page(AskQuery("acme", **wanted))
        assert "".join(row.id for row in rows) == ids

    async def test_what_is_not_there_is_not_found(self, store: Store) -> None:
        """Neither an unknown ask nor another tenant's."""
        await store.run(writing(asks=[ASK]))
        assert await store.asks.get(("other", "a1")) is None
        assert await store.asks.get(("acme", "none")) is None

    async def test_a_claim_is_kept_and_hides_nothing(self, store: Store) -> None:
        """The row says who has taken it on and until when; it stays open for the same roles."""
        await store.run(writing(asks=[ASK]))
        await store.run(writing(asks_changed=[CLAIMED]))
        assert await store.asks.get(KEY) == ask(
            roles=("manager",), claimed_by="ann", claimed_until=CLAIMED.claimed_until
        )
        assert [await inbox(store, role) for role in ("manager", "chief")] == ["a1", ""]

    async def test_a_delegated_ask_is_for_one_person_alone(self, store: Store) -> None:
        """Until it is changed again: released, or escalated to other roles."""
        await store.run(writing(asks=[ASK]))
        await store.run(writing(asks_changed=[DELEGATED]))
        assert await inbox(store, "manager", "chief") == ""
        assert await inbox(store, person="bob") == "a1"
        assert await inbox(store, "manager", person="ann") == ""
        await store.run(writing(asks_changed=[replace(DELEGATED, delegated_to="eve")]))
        assert [await inbox(store, person=name) for name in ("bob", "eve")] == ["", "a1"]
        await store.run(writing(asks_changed=[AskChange("acme", "a1", roles=("chief", "board"))]))
        assert await inbox(store, person="eve") == ""
        assert [await inbox(store, role) for role in ("manager", "chief", "board")] == ["", "a1", "a1"]
        assert await store.asks.get(KEY) == ask(roles=("chief", "board"))

    async def test_a_closed_ask_is_out_of_every_inbox(self, store: Store) -> None:
        """It can still be read, with how it ended and who had taken it on."""
        await store.run(writing(asks=[ASK, ask("a2")], asks_changed=[CLAIMED]))
        await store.run(writing(asks_closed=[CLOSING]))
        assert await inbox(store, "manager", "chief") == "a2"
        assert await inbox(store) == "a2"
        assert await store.asks.get(KEY) == ask(
            roles=("manager",),
            claimed_by="ann",
            claimed_until=CLAIMED.claimed_until,
            closed_at=CLOSING.closed_at,
            closed_by=CLOSING.closed_by,
            closed_event="approve",
        )
        assert len(await store.asks.page(AskQuery("acme", open=False))) == 1

    @pytest.mark.parametrize("stored", [True, False], ids=["stored", "new"])
    async def test_what_happens_to_an_ask_in_one_unit_adds_up(self, store: Store, *, stored: bool) -> None:
        """Opened, claimed, delegated and closed by steps that share a transaction."""
        if stored:
            await store.run(writing(asks=[ASK]))
        opened = [] if stored else [ASK]
        await store.run(writing(asks=opened, asks_changed=[CLAIMED, DELEGATED]))
        assert await store.asks.get(KEY) == ask(roles=("manager",), delegated_to="bob")
        assert await inbox(store, "manager", "chief", person="bob") == "a1"
        assert await inbox(store, "manager", "chief") == ""

    @pytest.mark.parametrize("stored", [True, False], ids=["stored", "new"])
    async def test_an_ask_changed_and_closed_in_one_unit_is_closed(
        self, store: Store, *, stored: bool
    ) -> None:
        """Both are written, and nobody finds it as open."""
        if stored:
            await store.run(writing(asks=[ASK]))
        opened = [] if stored else [ASK]
        await store.run(writing(asks=opened, asks_changed=[DELEGATED], asks_closed=[CLOSING]))
        row = await store.asks.get(KEY)
        assert row
        assert (row.delegated_to, row.closed_at) == ("bob", CLOSING.closed_at)
        assert await inbox(store, "manager", "chief", person="bob") == ""

    @pytest.mark.parametrize(
        "late",
        [{"asks_changed": [DELEGATED]}, {"asks_closed": [replace(CLOSING, closed_event="late")]}],
        ids=["changed", "closed"],
    )
    async def test_an_ask_stays_as_it_ended(self, store: Store, late: dict[str, Any]) -> None:
        """What comes after the closing changes nothing, and opens nothing."""
        await store.run(writing(asks=[ASK]))
        await store.run(writing(asks_closed=[CLOSING]))
        ended = await store.asks.get(KEY)
        await store.run(writing(**late))
        assert await store.asks.get(KEY) == ended
        assert await inbox(store, "manager", "chief", person="bob") == ""

    @pytest.mark.mission("ENG-14")
    @pytest.mark.mission("ENG-19")
    async def test_a_renewed_ask_is_for_those_it_is_for_now(self, store: Store) -> None:
        """It keeps its place in every inbox, and whoever is not asked any more does not find it."""
        await store.run(writing(asks=[ask(roles=("manager", "clerk")), ask("a2", opened_at=AT + SECOND)]))
        renewed = ask(roles=("clerk", "chief"), state="check", form='{"x":1}', deadline=AT + SECOND)
        await store.run(writing(asks_renewed=[renewed]))
        assert await store.asks.get(KEY) == renewed
        for role, ids in (("manager", ["a2"]), ("clerk", ["a1"]), ("chief", ["a1", "a2"])):
            found = await store.asks.page(AskQuery(tenant="acme", roles=(role,)))
            assert [each.id for each in found] == ids

    @pytest.mark.mission("ENG-19")
    async def test_an_ask_that_is_opened_and_renewed_in_one_unit_is_the_renewed_one(
        self, store: Store
    ) -> None:
        """An ask is always opened before it is renewed, so the renewal has the last word."""
        renewed = ask(roles=("chief",), form='{"x":1}')
        await store.run(writing(asks=[ask()], asks_renewed=[renewed]))
        assert await store.asks.get(KEY) == renewed
        for role, ids in (("chief", ["a1"]), ("manager", [])):
            found = await store.asks.page(AskQuery(tenant="acme", roles=(role,)))
            assert [each.id for each in found] == ids

    async def test_a_renewed_ask_can_be_changed_and_closed_in_the_same_unit(self, store: Store) -> None:
        """The last word on who may answer counts, and one that is closed is in no inbox."""
        await store.run(writing(asks=[ask(roles=("manager",)), ask("a2", roles=("manager",))]))
        renewed = [ask(roles=("chief",)), ask("a2", roles=("chief",))]
        closing = replace(CLOSING, id="a2")
        await store.run(writing(asks_renewed=renewed, asks_changed=[DELEGATED], asks_closed=[closing]))
        assert [each.id for each in await store.asks.page(AskQuery(tenant="acme", person="bob"))] == ["a1"]
        for role in ("manager", "chief"):
            assert not await store.asks.page(AskQuery(tenant="acme", roles=(role,)))

    @pytest.mark.mission("ENG-19")
    async def test_a_closed_ask_that_is_renewed_is_open_again(self, store: Store) -> None:
        """An upgrade that closed it was taken back."""
        await store.run(writing(asks=[ask()]))
        await store.run(writing(asks_closed=[CLOSING]))
        await store.run(writing(asks_renewed=[ask()]))
        assert await store.asks.get(KEY) == ask()
        assert [each.id for each in await store.asks.page(AskQuery(tenant="acme", roles=ASK.roles))] == ["a1"]

    async def test_an_ask_of_another_tenant_stays_as_it_is(self, store: Store) -> None:
        """Asks with one id in two tenants are two asks."""
        theirs = ask(tenant="other")
        await store.run(writing(asks=[ASK, theirs]))
        await store.run(writing(asks_changed=[DELEGATED]))
        await store.run(writing(asks_closed=[CLOSING]))
        assert await store.asks.page(AskQuery("other", roles=("manager",))) == [theirs]

    @pytest.mark.mission("ENG-14")
    @pytest.mark.parametrize(
        "wanted",
        [{}, {"roles": ("manager",)}, {"instance": "i1"}, {"instance": "i1", "roles": ("manager",)}],
        ids=str,
    )
    async def test_a_page_begins_after_an_ask_of_the_same_tenant(
        self, store: Store, wanted: dict[str, Any]
    ) -> None:
        """When another tenant's ask of the same id was opened does not matter, before or after."""
        rows = [ask(name, opened_at=AT + n * SECOND) for n, name in enumerate("abcd")]
        for tenant, opened_at in (("Before", LONG_AGO), ("later", AT + 9 * SECOND)):
            rows += [ask(name, tenant=tenant, opened_at=opened_at) for name in "bx"]
        await store.run(writing(asks=rows))
        found = await store.asks.page(AskQuery("acme", after="b", **wanted))
        assert [row.id for row in found] == ["c", "d"]
        assert not await store.asks.page(AskQuery("acme", after="x", **wanted))

    @pytest.mark.mission("ENG-14")
    async def test_an_ask_that_is_passed_on_keeps_its_place(self, store: Store) -> None:
        """It stands where it was opened, not where another tenant's ask of the same id was."""
        theirs = [ask("z", tenant=tenant, opened_at=LONG_AGO) for tenant in ("Before", "other")]
        await store.run(writing(asks=theirs))
        await store.run(writing(asks=[ask(name, opened_at=AT + n * SECOND) for n, name in enumerate("xyz")]))
        await store.run(writing(asks_changed=[AskChange("acme", name, roles=("board",)) for name in "zyx"]))
        pages = [
            await store.asks.page(AskQuery("acme", roles=("board",), after=after, limit=1))
            for after in (None, "x", "y", "z")
        ]
        assert ["".join(row.id for row in page) for page in pages] == ["x", "y", "z", ""]

    async def test_a_reader_of_pages_meets_each_ask_once(self, store: Store) -> None:
        """Also when asks are opened and closed while it reads."""
        await store.run(writing(asks=[ask(f"{9 - n}", opened_at=AT + n * SECOND) for n in range(6)]))
        seen: list[str] = []
        while page := await store.asks.page(
            AskQuery("acme", roles=("manager", "chief"), after=seen[-1] if seen else None, limit=2)
        ):
            seen += [row.id for row in page]
            await store.run(writing(asks_closed=[replace(CLOSING, id=seen[-1])]))
            if len(seen) == 2:
                await store.run(writing(asks=[ask("0", opened_at=AT + 9 * SECOND)]))
        assert seen == ["9", "8", "7", "6", "5", "4", "0"]
