"""What charts tell live: in the same stream as what happens, once, in order, to those who may see it."""

import asyncio
import random
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.api.live.place import KINDS, Place, Told, events, heard, line, placed, reading, seqs

pytestmark = pytest.mark.mission("ENG-7", "ENG-15")

FAR = datetime(2100, 1, 1, tzinfo=UTC)


@KINDS
async def test_a_message_comes_after_the_transition_that_tells_it(place: Place, kind: str) -> None:
    """With whose it is, what it tells, and the id to go on from."""
    await place.visit("a")
    async with reading(place, kind) as reader:
        await place.call("a", data={"loud": True})
        moved, called, heard_of = await events(reader, 3)
    assert seqs([moved, called, heard_of]) == line("a", 2, "called", "heard")
    assert {name: value for name, value in called.items() if name not in {"id", "at", "last", "kind"}} == {
        "type": "message",
        "tenant": "acme",
        "chart": "Visit",
        "instance": "a",
        "owner": "ann",
        "parent": None,
        "message": "a:2:0",
        "name": "called",
        "data": {"user": "ann"},
    }
    assert heard_of["data"] == {"instance": "a", "event": "call", "data": {"loud": True}}
    assert called["at"] == moved["at"]
    assert len({each["id"] for each in (moved, called, heard_of)}) == 3


@KINDS
async def test_who_comes_back_in_the_middle_gets_the_rest(place: Place, kind: str) -> None:
    """From the id of a transition, of a message, and of the last message of a step."""
    await place.visit("a")
    await place.call("a", 60)
    await place.turn("a")
    async with reading(place, kind, after="0-0") as reader:
        everything = await events(reader, 182)
    calls = [what for seq in range(2, 62) for what in (seq, "called", "heard")]
    assert seqs(everything) == line("a", 1, *calls, 62)
    for place_in_it in (1, 2, 3, 4, 100, 179, 180, 181):
        async with reading(place, kind, after=everything[place_in_it - 1]["id"]) as reader:
            rest = await events(reader, 182 - place_in_it)
        assert [each["id"] for each in rest] == [each["id"] for each in everything[place_in_it:]]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, "a a a b b b"),
        ({"instance": "a"}, "a a a"),
        ({"owner": "bob"}, "b b b"),
        ({"chart": "Visit", "owner": "ann"}, "a a a"),
        ({"tenant": "other"}, "a a a z"),
    ],
    ids=str,
)
@KINDS
@pytest.mark.mission("ENG-14")
async def test_a_reader_gets_only_messages_it_asked_for(
    place: Place, kind: str, wanted: dict[str, str], expected: str
) -> None:
    """Live and again from the database; what is another tenant's is never seen."""
    await place.visit("a")
    await place.visit("a", tenant="other")
    await place.visit("b", user="bob")
    async with reading(place, kind, **wanted) as reader:
        (start,) = [place.hub._feeds[each].cursor for each in place.hub._feeds]
        await place.call("a", tenant="other")
        await place.call("a")
        await place.call("b")
        await place.visit("z", tenant="other")
        found = await events(reader, len(expected.split()))
    assert " ".join(each["instance"] for each in found) == expected
    assert {each["tenant"] for each in found} == {wanted.get("tenant", "acme")}
    begun = (await place.app.state.ciphers.of(wanted.get("tenant", "acme"))).event(start)
    async with reading(place, kind, after=begun, **wanted) as late:
        again = await events(late, len(found))
    assert [each["id"] for each in again] == [each["id"] for each in found]


async def test_readers_of_two_nodes_see_all_messages_once(address: str) -> None:
    """Wherever they read, whoever writes, and however often they come back."""
    calls, writers = 4, 12
    total = writers * (1 + 3 * calls)

    async def write(place: Place, number: int) -> None:
        await place.visit(f"i{number}")
        await place.call(f"i{number}", calls)

    async def follow(places: list[Place], seed: int) -> list[str]:
        chance, last, seen = random.Random(seed), "0-0", list[Told]()
        while len(seen) < total:
            kind = chance.choice(("socket", "stream"))
            async with reading(chance.choice(places), kind, after=last) as reader:
                seen += await events(reader, min(chance.choice((1, 5, 40)), total - len(seen)))
            last = seen[-1]["id"]
        for number in range(writers):
            name = f"i{number}"
            steps = [what for seq in range(2, 2 + calls) for what in (seq, "called", "heard")]
            assert seqs([each for each in seen if each["instance"] == name]) == line(name, 1, *steps)
        return [each["id"] for each in seen]

    async with AsyncExitStack() as stack:
        places = [await stack.enter_async_context(placed(address)) for _ in range(2)]
        following = asyncio.gather(*(follow(places, seed) for seed in range(4)))
        await asyncio.gather(*(write(places[number % 2], number) for number in range(writers)))
        everything = await following
    assert all(each == everything[0] for each in everything)
    assert len({*everything[0]}) == total


async def first(reader: Any) -> Told:
    """The first that a reader hears after its welcome."""
    told: Told = await (anext(reader) if hasattr(reader, "__anext__") else heard(reader))
    return told


@KINDS
async def test_who_was_away_for_too_long_is_told(place: Place, kind: str) -> None:
    """It hears that something is gone before it gets what is left; who missed nothing does not."""
    await place.visit("a")
    await place.call("a")
    async with reading(place, kind, after="0-0") as reader:
        started, _, _, last = await events(reader, 4)
    store = place.node.engine.store
    for relay in place.node.relays:  # what a consumer may still need is not pruned
        await relay.stop()
        assert await store.messages.retire(relay._state.consumer)
    assert await store.messages.prune(FAR, 100) == 2
    async with reading(place, kind, after=started["id"]) as reader:
        gap = await first(reader)
        assert (gap["type"], gap["id"]) == ("gap", started["id"])
        assert seqs(await events(reader, 1)) == line("a", 2)
    await place.turn("a")
    async with reading(place, kind, after=last["id"]) as reader:
        assert seqs([await first(reader)]) == line("a", 3)
