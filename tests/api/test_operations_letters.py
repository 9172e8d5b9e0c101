"""Letters that a destination has not taken: looked at, tried again, given up."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from headway.codec import replace
from headway.store.queries import Settlement
from headway.store.rows import Cursor
from tests.api.operating import Floor, Order, operated
from tests.store.contract.place import LETTER

pytestmark = pytest.mark.mission("ENG-5", "ENG-14")
SHOP = "subscriber:shop"


@pytest.fixture
def floor(database: str, runner: asyncio.Runner) -> Iterator[Floor]:
    """A running service."""
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(operated(database)))
    runner.run(stack.aclose())


def named(page: Any) -> list[str]:
    """Whose letters are on a page."""
    return [each["instance"] for each in page["items"]]


async def dead(floor: Floor, tenant: str = "default") -> list[str]:
    """Whose letters are dead."""
    return [row.instance for row in await floor.node.letters.list(tenant, limit=1_000)]


async def test_letters_are_listed_by_what_is_asked_for(floor: Floor) -> None:
    """By destination, instance and whether they are dead, with why they were not taken."""
    await floor.dead_letters("a", "b", "c")
    async with floor.operator() as desk:
        first = await desk.get("letters", limit=2)
        rest = await desk.get("letters", limit=2, cursor=first["next"])
        assert named(await desk.get("letters", instance="b")) == ["b"]
        assert named(await desk.get("letters", destination=SHOP, dead="true")) == ["a", "b", "c"]
        assert named(await desk.get("letters", dead="false")) == []
        assert named(await desk.get("letters", destination="none")) == []
    assert (named(first), named(rest), rest["next"]) == (["a", "b"], ["c"], None)
    letter = first["items"][0]
    assert (letter["destination"], letter["name"], letter["dead"]) == (SHOP, "order.nudged", True)
    assert "the shop is closed" in letter["error"]
    assert "data" not in letter


async def test_pages_part_the_letters_of_one_message(floor: Floor) -> None:
    """A message that several destinations have not taken: each letter stands on one page, none on two."""
    store = floor.node.engine.store
    for destination in ("x", "y", "z"):
        await store.leases.hold([("", destination)], "n", 60_000)
        letters = tuple(
            replace(LETTER, destination=destination, tenant="default", id=f"m{position}", position=position)
            for position in (7, 8)
        )
        assert await store.messages.settle(Settlement(destination, "n", Cursor(), letters))
    seen, cursor = [], None
    async with floor.operator() as desk:
        for _ in range(6):
            page = await desk.get("letters", limit=1, **({} if cursor is None else {"cursor": cursor}))
            seen += [(each["id"], each["destination"]) for each in page["items"]]
            cursor = page["next"]
    assert cursor is None
    assert seen == [(message, each) for message in ("m7", "m8") for each in ("x", "y", "z")]


@pytest.mark.parametrize("act", ["redrive", "discard"])
async def test_a_dry_run_is_the_rule_and_changes_nothing(floor: Floor, act: str) -> None:
    """It tells how many it would be, which they are, and whether there are more."""
    await floor.dead_letters("a", "b", "c")
    async with floor.operator() as desk:
        told = await desk.done(f"letters/{act}", destination=SHOP, limit=2)
        one = await desk.done(f"letters/{act}", destination=SHOP, instance="c", dry_run=True)
    assert (told["dry_run"], told["count"], told["more"]) == (True, 2, True)
    assert [each["instance"] for each in told["sample"]] == ["a", "b", "c"][: len(told["sample"])]
    assert (one["count"], one["more"], one["sample"][0]["instance"]) == (1, False, "c")
    assert await dead(floor) == ["a", "b", "c"]
    assert floor.shop.taken == []


async def test_dead_letters_are_driven_again_and_arrive(floor: Floor) -> None:
    """At once, those that were asked for; with a key a repeat gets the first answer."""
    await floor.dead_letters("a", "b", "c")
    [letter] = await floor.node.letters.list("default", instance="c")
    async with floor.operator() as desk:
        some = await desk.done("letters/redrive", "again", limit=2, dry_run=False)
        assert await desk.done("letters/redrive", "again", limit=2, dry_run=False) == some
        assert (some["dry_run"], some["count"], some["more"]) == (False, 2, True)
        assert await dead(floor) == ["c"]
        rest = await desk.done("letters/redrive", ids=[letter.id, "none"], dry_run=False)
        assert (rest["count"], rest["more"]) == (1, False)
    async with asyncio.timeout(60):
        while len(floor.shop.taken) < 3:  # noqa: ASYNC110 - the relay tells nobody
            await asyncio.sleep(0.005)
    assert sorted(floor.shop.taken) == ["a", "b", "c"]


async def test_dead_letters_are_given_up_for_one_destination(floor: Floor) -> None:
    """By name only, and nothing arrives any more."""
    await floor.dead_letters("a", "b")
    async with floor.operator() as desk:
        unnamed = await desk.post("letters/discard", dry_run=False)
        other = await desk.done("letters/discard", destination="none", dry_run=False)
        one = await desk.done("letters/discard", destination=SHOP, instance="a", dry_run=False)
    assert (unnamed.status_code, unnamed.json()["code"]) == (422, "invalid")
    assert (other["count"], one["count"]) == (0, 1)
    assert await dead(floor) == ["b"]


async def test_letters_that_wait_are_given_up_only_when_that_is_asked_for(floor: Floor) -> None:
    """So that an operator can end what nobody will ever take."""
    store = floor.node.engine.store
    wanted: dict[str, Any] = {"destination": "x", "dry_run": False}
    await store.leases.hold([("", "x")], "n", 60_000)
    letters = (replace(LETTER, destination="x", tenant="default", id="m7", position=7, dead=False),)
    assert await store.messages.settle(Settlement("x", "n", Cursor(), letters))
    async with floor.operator() as desk:
        assert (await desk.done("letters/discard", **wanted))["count"] == 0
        tried = await desk.done("letters/discard", destination="x", waiting=True)
        assert (tried["dry_run"], tried["count"], tried["sample"][0]["id"]) == (True, 1, "m7")
        assert (await desk.done("letters/discard", **wanted, waiting=True))["count"] == 1
    assert await floor.node.letters.list("default", destination="x", dead=None) == []


async def test_nobody_touches_the_letters_of_another_tenant(floor: Floor) -> None:
    """By no filter, not by their ids; and their number does not show."""
    await floor.dead_letters("a", "b")
    ids = [row.id for row in await floor.node.letters.list("default")]
    async with floor.operator("other") as desk:
        for body in ({}, {"ids": ids}, {"instance": "a"}):
            for act in ("redrive", "discard"):
                for dry_run in (True, False):
                    told = await desk.done(f"letters/{act}", destination=SHOP, dry_run=dry_run, **body)
                    assert (told["count"], told["more"], told["sample"]) == (0, False, [])
    assert await dead(floor) == ["a", "b"]


async def test_destinations_tell_what_waits_and_what_is_dead(floor: Floor) -> None:
    """Of the caller's tenant, also for a destination that nobody serves here; and how far it is behind."""
    await floor.dead_letters("a", "b")
    await floor.dead_letters("x", tenant="other")
    for relay in floor.node.relays:
        await relay.stop()
    (await floor.node.engine.send("default", "a", Order.nudge())).unwrap()
    async with floor.operator() as desk:
        _, shop = (await desk.get("destinations"))["items"]
        served, floor.node.relays = floor.node.relays, []
        [unserved] = (await desk.get("destinations"))["items"]
        floor.node.relays = served
    async with floor.operator("other") as desk:
        _, theirs = (await desk.get("destinations"))["items"]
    assert (shop["name"], shop["dead"], shop["waiting"], shop["served_here"]) == (SHOP, 2, 0, True)
    assert shop["lag_seconds"] > 0
    assert (theirs["dead"], theirs["lag_seconds"]) == (1, 0)
    assert (unserved["name"], unserved["served_here"], unserved["lag_seconds"]) == (SHOP, False, None)


@pytest.mark.parametrize(
    "body",
    [
        {"dry_run": "false"},
        {"dry_run": 0},
        {"limit": 0},
        {"limit": 1_001},
        {"limit": "5"},
        {"ids": "m1"},
        {"ids": [1]},
        {"ids": [""]},
        {"ids": ["a\x00"]},
        {"instance": "\x00"},
        {"destination": ""},
        {"tenant": "other"},
        {"dead": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("act", ["redrive", "discard"])
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_bad_input_changes_nothing(floor: Floor, act: str, body: dict[str, Any]) -> None:
    """No coercion, no unknown field."""
    async with floor.operator() as desk:
        answer = await desk.post(f"letters/{act}", **{"destination": SHOP, "dry_run": False, **body})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
