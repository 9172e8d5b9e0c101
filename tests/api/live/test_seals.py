"""What ids of events tell a tenant: where to go on, and nothing of what the others do."""

import asyncio
import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import pairwise

import pytest

from headway.api.cursors import SECRET_LEASE, CursorCiphers, cipher_for, shared_secret
from headway.api.problems import Problem
from headway.store.address import store_at
from headway.store.rows import Cursor
from headway.store.sqlite.connection import MEMORY
from tests.api.live.place import KINDS, Place, Told, events, heard, placed, reading
from tests.api.live.test_letting_in import QUICK

pytestmark = pytest.mark.mission("ENG-2", "ENG-14")

SHARED = b"a secret of all nodes"
CURSORS = [Cursor(0, 1), Cursor(0, 1, 1), Cursor(7, 10**18 - 1, 10**18 - 1), Cursor(10**18, 1)]


@pytest.fixture
def place(address: str, runner: asyncio.Runner) -> Iterator[Place]:
    """A running service whose signs of life come quickly."""
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(placed(address, limits=QUICK)))
    runner.run(stack.aclose())


@pytest.mark.parametrize("cursor", CURSORS)
def test_a_seal_is_opened_by_those_who_share_it(cursor: Cursor) -> None:
    """The same event has the same id on each node; a place has another text each time and is the same."""
    one, other = (cipher_for(SHARED, "acme") for _ in range(2))
    assert one.event(cursor) == other.event(cursor)
    assert one.place(cursor) != one.place(cursor)
    for text in (one.event(cursor), one.place(cursor)):
        assert other.cursor(text) == cursor
        assert re.fullmatch(r"[\w-]{59}", text)


async def test_all_nodes_of_a_database_share_its_secret(address: str) -> None:
    """Those that begin at once agree on one, it outlives them, and it stands in no other database."""
    for _ in range(2):
        async with AsyncExitStack() as stack:
            stores = [store_at(address) for _ in range(3)]
            for store in stores:
                await store.open()
                stack.push_async_callback(store.close)
            found = await asyncio.gather(*(shared_secret(store) for store in stores for _ in range(3)))
            ids = {(await CursorCiphers(store).of("acme")).event(CURSORS[0]) for store in stores}
        assert (len({*found}), len(ids), len(found[0])) == (1, 1, 64)
    elsewhere = store_at(f"sqlite:///{MEMORY}")
    await elsewhere.open()
    assert await shared_secret(elsewhere) != found[0]
    await elsewhere.close()


async def test_a_node_waits_for_the_one_that_makes_the_secret(address: str) -> None:
    """While another one holds the lease it makes none; when that one is gone it does."""
    store = store_at(address)
    await store.open()
    assert await store.leases.hold([SECRET_LEASE], "another node", 60_000)
    waiting = asyncio.create_task(shared_secret(store))
    for _ in range(3):
        await store.now()
    assert not waiting.done()
    await store.leases.release([SECRET_LEASE], "another node")
    assert await waiting == await shared_secret(store)
    await store.close()


def forged() -> Iterator[str]:
    """What is no id of the tenant: changed at each place, cut, another's, of another list, in the clear."""
    good = cipher_for(SHARED, "acme").event(Cursor(0, 41))
    for at in range(len(good)):
        yield good[:at] + ("A" if good[at] != "A" else "B") + good[at + 1 :]
    yield good[:-1] + chr(ord(good[-1]) + 1)
    yield from (good[:-1], good + "A", good + "=", f" {good[1:]}", "", "x", "0-41", "0-0-0", "ä" * 59, "\x00")
    yield cipher_for(SHARED, "other").event(Cursor(0, 41))
    yield cipher_for(b"another secret", "acme").event(Cursor(0, 41))
    yield cipher_for(SHARED, "acme").close("history", 0, 41)


def test_what_is_forged_is_told_as_one() -> None:
    """Whatever is wrong with it, the answer is the same to the byte: nobody learns how near they were."""
    told = set()
    for text in forged():
        with pytest.raises(Problem) as refused:
            cipher_for(SHARED, "acme").cursor(text)
        told.add(refused.value.document("/v1/events"))
    assert len(told) == 1
    assert json.loads(told.pop())["code"] == "cursor"


@KINDS
async def test_ids_do_not_tell_how_much_others_do(place: Place, kind: str) -> None:
    """Ids of events that lie near and far apart differ all over, and are of one length."""
    ids = []
    async with reading(place, kind) as reader:
        for turns in (0, 9, 99):
            await place.visit(f"theirs {turns}", turns, tenant="other")
            await place.visit(f"ours {turns}")
            ids += [each["id"] for each in await events(reader, 1)]
    raw = [urlsafe_b64decode(f"{text}=") for text in ids]
    assert {len(each) for each in raw} == {44}
    differing = [sum(a != b for a, b in zip(*pair, strict=True)) for pair in pairwise(raw)]
    assert min(differing) > 30


async def beats(place: Place, count: int) -> list[str]:
    """The ids of signs of life, as a WebSocket hears them."""
    found: list[str] = []
    async with place.socket() as connection:
        while len(found) < count:
            told: Told = await heard(connection)
            assert told["type"] == "heartbeat"
            found.append(told["id"])
    return found


async def test_signs_of_life_do_not_tell_whether_others_do_something(place: Place) -> None:
    """Each has another id, whether the log has moved or not."""
    await place.visit("a")
    quiet = await beats(place, 4)
    await place.visit("b", 5, tenant="other")
    assert len({*quiet, *await beats(place, 2)}) == 6
    cipher = await place.app.state.ciphers.of("acme")
    assert len({cipher.cursor(each) for each in quiet}) == 1


@KINDS
async def test_an_id_of_another_tenant_is_as_wrong_as_a_forged_one(place: Place, kind: str) -> None:
    """The same problem, with the same words, by either way to follow."""
    await place.visit("z", tenant="other")
    async with reading(place, kind, tenant="other", after="0-0") as reader:
        [theirs] = await events(reader, 1)
    told = []
    for after in (theirs["id"], "x", "0-1"):
        with pytest.raises(Problem) as refused:
            await place.hub.enter(f"Bearer {await place.key()}", after)
        told.append(refused.value.document("/v1/events"))
    assert (len({*told}), json.loads(told[0])["code"]) == (1, "cursor")
    assert place.hub.readers == 0


@KINDS
async def test_all_readers_of_an_event_get_the_same_id(place: Place, kind: str) -> None:
    """Of whatever subscription, live or later, and as the id of the stream and of the event itself."""
    async with reading(place, kind) as live:
        await place.visit("a", 2)
        at_once = await events(live, 3)
    async with reading(place, kind, instance="a", after="0-0") as later:
        again = await events(later, 3)
    assert [each["id"] for each in at_once] == [each["id"] for each in again]
    if kind == "stream":
        assert [each["last"] for each in again] == [each["id"] for each in again]
