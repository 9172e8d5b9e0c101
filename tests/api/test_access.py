"""Who calls: what is kept for a moment, what is looked up again, how often, and what is written down."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta

import pytest

from headway import Actor
from headway.api import access as module
from headway.api.access import KEEPS, KEPT_FOR, Access, Pace, Rate
from headway.api.keyring import Keyring
from headway.api.problems import Problem
from headway.codec import replace
from headway.errors import InputError, StoreUnavailableError, UnknownKeyError
from headway.node import Node
from headway.store.port import KeyStore, Store
from headway.store.queries import KeyNoteQuery, KeyQuery
from headway.store.rows import KeyNoteRow, KeyRow

pytestmark = pytest.mark.mission("ENG-14")

ANN = Actor("ann", "person", frozenset({"manager", "auditor"}))


@asynccontextmanager
async def opened(database: str) -> AsyncIterator[Store]:
    """A store, made when it is missing."""
    node = Node(database)
    async with node.opened():
        yield node.engine.store


@pytest.fixture
def store(database: str, runner: asyncio.Runner) -> Iterator[Store]:
    """An open store of each kind."""
    stack = AsyncExitStack()
    yield runner.run(stack.enter_async_context(opened(database)))
    runner.run(stack.aclose())


class Watch:
    """A clock of a process that stands until it is moved."""

    def __init__(self) -> None:
        self.time = 1_000.0

    def __call__(self) -> float:
        """The seconds it shows."""
        return self.time


async def refused(access: Access, header: str) -> int:
    """With which status a credential is refused."""
    with pytest.raises(Problem) as problem:
        await access.caller(header)
    return problem.value.status


async def test_a_caller_is_who_the_key_was_made_for(store: Store) -> None:
    """Tenant, actor with kind and roles, and scopes come from the key alone."""
    access = Access(store)
    made = await access.keyring.make("acme", ANN, ["send", "read", "send"])
    for scheme in ("Bearer", "bearer", "BEARER"):
        caller = await access.caller(f"{scheme} {made.text}")
        assert (caller.tenant, caller.actor, caller.credential) == ("acme", ANN, made.key.id)
        assert caller.scopes == frozenset({"read", "send"})
        assert (caller.may("read"), caller.may("admin")) == (True, False)


async def test_a_revocation_elsewhere_is_seen_within_seconds(store: Store) -> None:
    """A node that did not revoke the key knows it for two seconds more at most."""
    watch = Watch()
    here, elsewhere = Access(store), Access(store, monotonic=watch)
    made = await here.keyring.make("acme", ANN, ["read"])
    header = f"Bearer {made.text}"
    assert KEPT_FOR <= 2
    await elsewhere.caller(header)
    await here.keyring.revoke("acme", made.key.id)
    await elsewhere.caller(header)
    watch.time += KEPT_FOR
    assert await refused(elsewhere, header) == 401


class Slow:
    """Keys whose finder has read, and does not come back before he is let."""

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys
        self.has_read, self.may_return = asyncio.Event(), asyncio.Event()

    async def find(self, key: str) -> tuple[datetime, KeyRow | None]:
        """What was there when it was asked for."""
        found = await self._keys.find(key)
        self.has_read.set()
        await self.may_return.wait()
        return found


async def test_a_key_that_is_read_while_it_is_revoked_is_not_kept(store: Store) -> None:
    """Who began to look just before a revocation may be let in once, and never again."""
    access = Access(store)
    made = await access.keyring.make("acme", ANN, ["read"])
    header = f"Bearer {made.text}"
    slow = access._keys = Slow(store.keys)  # type: ignore[assignment]  # it is only asked to find
    looking = asyncio.ensure_future(access.caller(header))
    await slow.has_read.wait()
    await access.keyring.revoke("acme", made.key.id)
    slow.may_return.set()
    assert (await looking).actor == ANN
    assert await refused(access, header) == 401


@pytest.mark.parametrize("ends", ["expiry", "overlap"])
async def test_a_key_ends_to_the_moment(store: Store, ends: str) -> None:
    """What is kept for a moment is not kept beyond the key's expiry, nor an old secret beyond its overlap."""
    watch = Watch()
    access = Access(store, monotonic=watch)
    made = await access.keyring.make("acme", ANN, ["read"], lasts="1s" if ends == "expiry" else None)
    if ends == "overlap":
        await access.keyring.rotate("acme", made.key.id, overlap="1s")
    header = f"Bearer {made.text}"
    await access.caller(header)
    assert watch.time < access._seen[header].until <= watch.time + 1


async def test_the_check_of_a_key_that_just_came_asks_nobody(store: Store) -> None:
    """Ten thousand calls of one key are one look into the store, and each takes microseconds."""
    access = Access(store, rate=Rate(10**9, 10**9), monotonic=Watch())
    header = f"Bearer {(await access.keyring.make('acme', ANN, ['read'])).text}"
    await access.caller(header)
    loop = asyncio.get_running_loop()
    best = float("inf")
    for _ in range(10):
        begun = loop.time()
        for _ in range(1_000):
            await access.caller(header)
        best = min(best, (loop.time() - begun) / 1_000)
    assert best < 20e-6


async def test_what_is_kept_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many credentials, good and forged, leave only so many behind."""
    monkeypatch.setattr(module, "MOST_KEPT", 3)
    access = Access(store)
    texts = [(await access.keyring.make("acme", ANN, ["read"])).text for _ in range(5)]
    for text in texts:
        await access.caller(f"Bearer {text}")
        assert await refused(access, f"Bearer hw_{'0' * 16}_{text[-48:]}") == 401
    assert len(access._seen) == len(access._paces) == 3
    assert (await access.caller(f"Bearer {texts[0]}")).actor == ANN


async def test_without_a_database_nobody_gets_in(database: str) -> None:
    """A key that cannot be looked up is an error of the service, not a yes."""
    async with opened(database) as store:
        watch = Watch()
        access = Access(store, monotonic=watch)
        header = f"Bearer {(await access.keyring.make('acme', ANN, ['admin'])).text}"
        await access.caller(header)
    watch.time += KEPT_FOR
    with pytest.raises(StoreUnavailableError):
        await access.caller(header)


async def test_all_texts_of_a_key_share_its_rate(store: Store) -> None:
    """Neither the old secret nor another spelling of the scheme gives more room."""
    access = Access(store, rate=Rate(1, 3), monotonic=Watch())
    made = await access.keyring.make("acme", ANN, ["read"])
    again = await access.keyring.rotate("acme", made.key.id)
    for header in (f"Bearer {made.text}", f"bearer {again.text}", f"Bearer {again.text}"):
        await access.caller(header)
    assert await refused(access, f"BEARER {made.text}") == 429


def test_a_pace_gives_its_room_and_then_its_rate() -> None:
    """So many at once after a rest, then one at a time, and waiting takes no room."""
    pace = Pace(10, 3)
    assert [pace.wait(0.0) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert pace.wait(0.0) == pace.wait(0.0) == pytest.approx(0.1)
    assert pace.wait(0.1) == 0.0
    assert pace.wait(0.15) == pytest.approx(0.05)
    assert [pace.wait(100.0) == 0.0 for _ in range(4)] == [True, True, True, False]


async def test_of_many_that_start_at_once_one_makes_the_first_key(store: Store) -> None:
    """It may do everything, its text is not in its representation, and later there is none."""
    made = await asyncio.gather(*(Keyring(store).first() for _ in range(5)))
    [first] = [each for each in made if each is not None]
    assert (await Access(store).caller(f"Bearer {first.text}")).may("operate")
    assert await Keyring(store).first() is None
    assert len(await store.keys.list(KeyQuery())) == 1
    assert first.text not in repr(first)


async def test_counts_are_written_once_and_add_up(store: Store) -> None:
    """Two nodes count the same key; nothing is lost or counted twice, and idle turns write nothing."""
    nodes = [Access(store), Access(store)]
    made = await nodes[0].keyring.make("acme", ANN, ["read"])
    for _ in range(3):
        for node in nodes:
            await node.caller(f"Bearer {made.text}")
            await node.log.turn()
            await node.log.turn()
    assert [node.log.tally["written"] for node in nodes] == [3, 3]
    counted = {note.what: note.count for note in await nodes[0].keyring.notes("acme", made.key.id)}
    assert counted == {"made": 1, "used": 6}


async def test_stopping_writes_what_was_counted(store: Store) -> None:
    """A service that ends leaves no use of a key behind."""
    async with Access(store) as access:
        made = await access.keyring.make("acme", ANN, ["read"])
        await access.caller(f"Bearer {made.text}")
    assert (await access.keyring.get("acme", made.key.id)).used_at is not None


async def test_old_notes_are_dropped(store: Store) -> None:
    """What is older than 400 days goes when something new is written."""
    access, keys = Access(store), store.keys
    made = await access.keyring.make("acme", ANN, ["read"])
    old = made.key.made_at - KEEPS - timedelta(days=1)
    await keys.note([KeyNoteRow("acme", made.key.id, old, "used", 7, old, old, by="")], {})
    await access.caller(f"Bearer {made.text}")
    await access.log.turn()
    noted = await keys.notes(KeyNoteQuery("acme", made.key.id))
    assert sorted((note.what, note.count) for note in noted) == [("made", 1), ("used", 1)]


async def test_of_two_changes_at_once_one_goes_first(store: Store) -> None:
    """A change names the secret it was decided on; a revoked key does not change any more."""
    keys, ring = store.keys, Keyring(store)
    made = (await ring.make("acme", ANN, ["read"])).key
    note = KeyNoteRow("acme", made.id, made.made_at, "rotated", 1, made.made_at, made.made_at, by="")

    def with_secret(secret: str) -> KeyRow:
        return KeyRow(**{name: getattr(made, name) for name in KeyRow.__struct_fields__} | {"secret": secret})

    assert await keys.change(with_secret("a"), note, was=made.secret)
    assert not await keys.change(with_secret("b"), note, was=made.secret)
    await ring.revoke("acme", made.id)
    assert not await keys.change(with_secret("c"), note, was="a")
    with pytest.raises(UnknownKeyError):
        await ring.rotate("acme", made.id)
    assert [each.what for each in await ring.notes("acme", made.id)].count("rotated") == 1


async def test_a_key_made_for_an_id_that_looks_like_another_is_refused(store: Store) -> None:
    """Nobody calls by a key that was stored before such ids and roles were refused; its log says why."""
    access, keys = Access(store), store.keys
    made = await access.keyring.make("acme", ANN, ["read"])
    note = KeyNoteRow("acme", "twin", made.key.made_at, "made", 1, made.key.made_at, made.key.made_at, by="")
    for twin, change, why in (
        ("0123456789abcdef", {"actor": "ann "}, "actor id"),
        ("fedcba9876543210", {"roles": ("{owner}",)}, "role"),
    ):
        await keys.add(replace(made.key, id=twin, **change), replace(note, key=twin))
        with pytest.raises(Problem) as refused:
            await access.caller(f"Bearer {made.text.replace(made.key.id, twin)}")
        assert refused.value.status == 401
        await access.log.turn()
        noted = await keys.notes(KeyNoteQuery("acme", twin))
        assert {note.what for note in noted} == {"made", f"refused: {why}"}
    for bad in (Actor("ann "), Actor("ann", "person", frozenset({"manager\n"}))):
        with pytest.raises(InputError):
            await access.keyring.make("acme", bad, ["read"])
    with pytest.raises(InputError, match="tenant"):
        await access.keyring.make("acme ", ANN, ["read"])
