"""Live events over WebSocket and SSE: everything once and in order, to those who may see it."""

import asyncio
import json
import random
from contextlib import AsyncExitStack

import pytest

from bench.service.live import Crowd
from headway.api.frames import Frame
from headway.store.rows import Cursor
from tests.api.live.place import KINDS, Place, Told, Visit, events, heard, line, placed, reading, seqs

pytestmark = pytest.mark.mission("ENG-7", "ENG-15")


@KINDS
async def test_a_reader_hears_of_each_commit(place: Place, kind: str) -> None:
    """What happens comes at once, with what it is about and the id to go on from."""
    async with reading(place, kind) as reader:
        await place.visit("a", 1)
        started, turned = await events(reader, 2)
    assert seqs([started, turned]) == line("a", 1, 2)
    expected = {
        "type": "transition", "tenant": "acme", "chart": "Visit", "version": 1, "instance": "a",
        "owner": "ann", "parent": None, "seq": 2, "row": 0, "event": "turn", "transition": "turn",
        "from": "staying", "to": "staying",
        "actor": "system", "reason": None, "attempt": 0, "data": None,
    }  # fmt: skip
    assert {name: turned[name] for name in expected} == expected
    assert turned["id"] != started["id"]


@KINDS
async def test_who_comes_back_gets_what_was_missed(place: Place, kind: str) -> None:
    """First the past, then the present, with none missed or doubled."""
    await place.visit("a", 250)
    async with reading(place, kind, after="0-0") as reader:
        first = await events(reader, 120)
        await place.turn("a", 5)
    async with reading(place, kind, after=first[-1]["id"]) as reader:
        second = await events(reader, 136)
        await place.turn("a")
        second += await events(reader, 1)
    assert seqs(first + second) == line("a", *range(1, 258))


async def test_the_last_event_id_goes_before_the_address(place: Place) -> None:
    """A browser that comes back uses the address it was given first, and says how far it has come."""
    await place.visit("a", 3)
    async with place.stream(after="0-0") as stream:
        seen = await events(stream, 3)
    async with place.stream(after="0-0", last=seen[-1]["last"]) as stream:
        assert seqs(await events(stream, 1)) == line("a", 4)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, "a b c a b"),
        ({"instance": "a"}, "a a"),
        ({"owner": "bob"}, "b b"),
        ({"chart": "Chore"}, "c"),
        ({"chart": "Visit", "owner": "ann"}, "a a"),
        ({"tenant": "other"}, "a z"),
    ],
    ids=str,
)
@KINDS
@pytest.mark.mission("ENG-14")
async def test_a_reader_gets_only_what_it_asked_for(
    place: Place, kind: str, wanted: dict[str, str], expected: str
) -> None:
    """By tenant, instance, owner and chart; what is another tenant's is never seen."""
    await place.visit("a")
    async with reading(place, kind, after="0-0", **wanted) as reader:
        await place.visit("a", tenant="other")
        await place.visit("b", user="bob")
        await place.node.engine.create("acme", "c", "Chore")
        await place.turn("a")
        await place.turn("b")
        await place.visit("z", tenant="other")
        found = await events(reader, len(expected.split()))
    assert " ".join(each["instance"] for each in found) == expected
    assert {each["tenant"] for each in found} == {wanted.get("tenant", "acme")}


@KINDS
async def test_a_reader_follows_the_children_of_one(place: Place, kind: str) -> None:
    """Of all that happens, what happens to them, and whose children they are."""
    await place.visit("a")
    await place.visit("b")
    async with reading(place, kind, parent="a") as reader:
        for parent in ("b", "a", "a"):
            await place.node.engine.send("acme", parent, Visit.begin())
        found = await events(reader, 2)
    assert [each["instance"] for each in found] == ["a:2:0", "a:4:0"]
    assert {each["parent"] for each in found} == {"a"}


async def test_readers_that_come_and_go_beside_many_writers_see_all_of_it_once(address: str) -> None:
    """On two nodes that share a database, wherever they read and whoever writes."""
    turns, writers, total = 5, 20, 120

    async def write(place: Place, number: int) -> None:
        await place.visit(f"i{number}", turns)

    async def follow(places: list[Place], seed: int) -> list[tuple[str, int | str]]:
        chance, last, seen = random.Random(seed), "0-0", list[Told]()
        while len(seen) < total:
            kind = chance.choice(("socket", "stream"))
            async with reading(chance.choice(places), kind, after=last) as reader:
                seen += await events(reader, min(chance.choice((1, 5, 40)), total - len(seen)))
            last = seen[-1]["id"]
        return seqs(seen)

    async with AsyncExitStack() as stack:
        places = [await stack.enter_async_context(placed(address)) for _ in range(2)]
        following = asyncio.gather(*(follow(places, seed) for seed in range(6)))
        await asyncio.gather(*(write(places[number % 2], number) for number in range(writers)))
        everything = await following
    assert all(each == everything[0] for each in everything)
    assert sorted(everything[0]) == sorted(
        (f"i{number}", seq) for number in range(writers) for seq in range(1, turns + 2)
    )


async def test_what_a_reader_knows_is_not_given_again(place: Place) -> None:
    """One that has read further than the node's own tail gets from the feed only what is new to it."""
    await place.visit("a", 3)
    credential = f"Bearer {await place.key()}"
    async with place.socket(after="0-0") as connection:
        *_, known, last = await events(connection, 4)
        reader = await place.hub.enter(credential, last["id"], instance="a")
        cipher = reader.feed.cipher
        old, new = (Frame(cipher.cursor(each["id"]), each["id"], b"{}") for each in (known, last))
        assert reader.take(old)
        assert reader.take(new)
        assert not reader._waiting
        assert reader.take(Frame(Cursor(new.cursor.stamp + 1, 0), "later", b"{}"))
        assert len(reader._waiting) == 1
        place.hub.leave(reader)


@KINDS
async def test_a_place_that_the_log_has_not_reached_is_a_gap(place: Place, kind: str) -> None:
    """Who has read on in a database that was set back hears of it, and misses nothing from then on."""
    await place.visit("a")
    beyond = (await place.app.state.ciphers.of("acme")).event(Cursor(10**17, 5))
    async with reading(place, kind, after=beyond) as reader:
        gap = await (heard(reader) if kind == "socket" else anext(reader))
        await place.turn("a", 2)
        assert seqs(await events(reader, 2)) == line("a", 2, 3)
    assert gap["type"] == "gap"
    async with reading(place, kind, after=gap["id"]) as reader:
        assert seqs(await events(reader, 2)) == line("a", 2, 3)


async def test_a_thousand_sockets_hear_of_one_commit(place: Place) -> None:
    """Each gets each event once, and all of them share one feed and its bytes."""
    await place.visit("a")
    crowd = Crowd(1_000)
    hello = {"type": "hello", "token": await place.key(), "instance": "a"}
    await crowd.connect(place.port, json.dumps(hello))
    async with place.socket(instance="a") as one:
        everybody = crowd.expect(3)
        await place.turn("a", 3)
        await everybody
        assert seqs(await events(one, 3)) == line("a", 2, 3, 4)
        assert place.hub.readers == 1_001
        assert len(place.hub._feeds) == 1
    crowd.close()
    assert {reader.events for reader in crowd.readers} == {3}


async def test_nobody_is_kept_who_is_gone(place: Place) -> None:
    """Connections that end leave nothing behind, and with the last one the log is read no more."""
    async with place.socket() as one, place.stream() as two:
        await place.visit("a")
        await events(one, 1)
        await events(two, 1)
        assert place.hub.readers == 2
    await place.nobody_left()
    assert not place.hub._feeds
    assert place.hub._watch is None


async def test_the_welcome_says_where_the_reader_stands(place: Place) -> None:
    """So that who is cut off before the first event can come back to the same place."""
    await place.visit("a")
    async with place.raw_socket() as connection:
        await connection.send(f'{{"type": "hello", "token": "{await place.key()}"}}')
        welcome = await heard(connection)
    assert (welcome["type"], welcome["tenant"]) == ("welcome", "acme")
    await place.turn("a")
    async with place.socket(after=welcome["id"]) as connection:
        assert seqs(await events(connection, 1)) == line("a", 2)
