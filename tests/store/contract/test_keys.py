"""API keys, and the notes of what was done with them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headway.codec import replace
from headway.store.port import Store
from headway.store.queries import KeyNoteQuery, KeyQuery
from headway.store.rows import KeyNoteRow, KeyRow
from headway.store.unit import AddKey, ChangeKey, Changes, Command, Found, Reads
from tests.store.contract.place import ANY_TEXT, AT, LONG_AGO, NEVER

SECOND = timedelta(seconds=1)
HASH, NEW = "hash", "new hash"
KEY = KeyRow(
    tenant="acme",
    id="k1",
    name=ANY_TEXT,
    actor="ann",
    kind="person",
    roles=("manager",),
    scopes=("read", "send"),
    rate=None,
    secret=HASH,
    made_at=AT,
    made_by="root",
)
NOTE = KeyNoteRow(tenant="acme", key="k1", at=AT, what="made", count=1, first_at=AT, last_at=AT, by="root")


def key(id: str, **fields: Any) -> KeyRow:  # noqa: A002 - the row's own word
    """A key like any other, but for these fields."""
    return replace(KEY, id=id, **fields)


async def notes(store: Store, **wanted: Any) -> list[KeyNoteRow]:
    """The notes of the key."""
    return [*await store.keys.notes(KeyNoteQuery("acme", "k1", **wanted))]


class OneCommand:
    """A unit that runs a command, and keeps its result."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self.result: object = None

    def begin(self) -> Reads:
        """Nothing but the command."""
        return Reads(commands=(self._command,), has_commands=True)

    def take(self, found: Found) -> None:
        """Keep its result."""
        [self.result] = found.results

    def changes(self) -> Changes:
        """None."""
        return Changes()


@pytest.mark.mission("ENG-14", "ENG-17")
class TestKeys:
    """A key is found by its id, and its notes add up."""

    @pytest.mark.parametrize(
        "row",
        [KEY, key("k1", rate=2**31 - 1, expires_at=NEVER, old_secret=ANY_TEXT, old_until=LONG_AGO, roles=())],
    )
    async def test_a_key_comes_back_as_it_went_in(self, store: Store, row: KeyRow) -> None:
        """With the store's time; an id that is not known is not found."""
        await store.keys.add(row, NOTE)
        now, found = await store.keys.find("k1")
        assert (found, abs(await store.now() - now) < 60 * SECOND) == (row, True)
        assert (await store.keys.find("k2"))[1] is None
        assert await notes(store) == [NOTE]

    @pytest.mark.parametrize(
        ("wanted", "ids"),
        [
            ({}, "bacd"),
            ({"tenant": "acme"}, "bac"),
            ({"tenant": "acme", "after": "b", "limit": 1}, "a"),
            ({"tenant": "acme", "after": "d"}, ""),
            ({"after": "none"}, ""),
        ],
        ids=str,
    )
    async def test_keys_are_listed_the_oldest_first(
        self, store: Store, wanted: dict[str, Any], ids: str
    ) -> None:
        """Of one tenant or of all, from a key of the tenant on."""
        made = [key("b"), key("c", made_at=AT + SECOND), key("a", made_at=AT + SECOND / 2)]
        for row in (*made, key("d", tenant="other", made_at=AT + 2 * SECOND)):
            await store.keys.add(row, replace(NOTE, key=row.id))
        assert "".join(row.id for row in await store.keys.list(KeyQuery(**wanted))) == ids

    async def test_a_key_changes_while_it_has_the_secret_that_was_seen(self, store: Store) -> None:
        """Only its secrets and times change, and only while it is not revoked."""
        await store.keys.add(KEY, NOTE)
        changed = replace(KEY, secret=NEW, old_secret=HASH, old_until=NEVER, expires_at=NEVER)
        note = replace(NOTE, what="rotated")
        assert not await store.keys.change(changed, note, was="other")
        assert not await store.keys.change(replace(changed, tenant="other"), note, was=HASH)
        assert await store.keys.change(replace(changed, name="ignored"), note, was=HASH)
        assert (await store.keys.find("k1"))[1] == changed
        revoked = replace(changed, revoked_at=AT)
        assert await store.keys.change(revoked, replace(NOTE, what="revoked"), was=NEW)
        assert not await store.keys.change(changed, replace(NOTE, what="again"), was=NEW)
        assert (await store.keys.find("k1"))[1] == revoked
        assert [each.what for each in await notes(store)] == ["rotated", "revoked", "made"]

    async def test_notes_of_one_time_and_kind_add_up(self, store: Store) -> None:
        """From the first to the last; the last use of a key never goes back."""
        await store.keys.add(KEY, NOTE)
        used = replace(NOTE, what="used", count=2, first_at=AT + SECOND, last_at=AT + 2 * SECOND)
        await store.keys.note([used], {"k1": AT + 2 * SECOND, "unknown": AT})
        await store.keys.note(
            [replace(used, count=3, first_at=AT, last_at=AT + SECOND, by="bob")], {"k1": AT}
        )
        assert await notes(store) == [replace(used, count=5, first_at=AT, by="bob"), NOTE]
        assert (await store.keys.find("k1"))[1] == replace(KEY, used_at=AT + 2 * SECOND)

    async def test_notes_are_read_in_pages_the_newest_first_and_pruned(self, store: Store) -> None:
        """Those from before a time go, so many at once, the oldest first."""
        lines = [replace(NOTE, at=AT + number * SECOND, what=what) for number in range(2) for what in "ab"]
        await store.keys.note(lines, {})
        assert await notes(store) == lines[::-1]
        assert await notes(store, before=(AT + SECOND, "a"), limit=1) == [lines[1]]
        assert await store.keys.prune_notes(AT + SECOND, 1) == 1
        assert await store.keys.prune_notes(AT + SECOND, 10) == 1
        assert await notes(store) == [lines[3], lines[2]]

    @pytest.mark.mission("ENG-14")
    async def test_another_key_stays_as_it_is(self, store: Store) -> None:
        """Even one with the same secret: neither its secret, its use nor its notes change."""
        other, theirs = key("k2"), key("k3", tenant="other")
        for row in (KEY, other, theirs):
            await store.keys.add(row, replace(NOTE, tenant=row.tenant, key=row.id))
        foreign = [replace(NOTE, tenant="other"), replace(NOTE, key="k2", what="used")]
        await store.keys.note(foreign, {})
        assert await store.keys.change(replace(KEY, secret=NEW), replace(NOTE, what="rotated"), was=HASH)
        await store.keys.note([replace(NOTE, what="used")], {"k1": AT})
        assert [(await store.keys.find(row.id))[1] for row in (other, theirs)] == [other, theirs]
        assert [note.what for note in await notes(store)] == ["used", "rotated", "made"]
        assert [note.what for note in await notes(store, before=(AT, "used"))] == ["rotated", "made"]

    async def test_a_unit_adds_and_changes_keys(self, store: Store) -> None:
        """As the calls do."""
        added, changed = OneCommand(AddKey(KEY, NOTE)), replace(KEY, secret=NEW)
        await store.run(added)
        again = OneCommand(ChangeKey(changed, replace(NOTE, what="rotated"), "other"))
        await store.run(again)
        done = OneCommand(ChangeKey(changed, replace(NOTE, what="rotated"), HASH))
        await store.run(done)
        assert (added.result, again.result, done.result) == (True, False, True)
        assert (await store.keys.find("k1"))[1] == changed
