"""The journal: whoever changes a database by another way than the engine's is found out."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, cast

import pytest

from headway import Ask, Final, State, Statechart, Upgrade, person
from headway.codec import decode, encode, replace
from headway.engine import journal
from headway.engine.audit import audit
from headway.engine.audit.audit import Audit
from headway.engine.upgrade.upgrade import upgrade
from headway.statechart.refusal import Refusal
from headway.store.address import database_at
from headway.store.port import Store
from headway.store.rows import HistoryRow
from headway.store.sqlite import instances as sqlite_instances
from headway.testing import FakeClock, Harness
from tests.refusals import answer_to

pytestmark = pytest.mark.mission("ENG-7")

ANN = person("ann", "manager")
MOST_READS = 60


@dataclass
class Verdict:
    """What a manager says of a claim."""

    fair: bool
    why: str = ""


class Claim(Statechart):
    """Asks a manager, who sees the amount."""

    draft = State(initial=True)
    review = State(ask=Ask("manager", form=Verdict, deadline="2d", shows="amount"))
    paying = State(run="pay")
    paid, refused = Final(), Final()
    submit = draft.to(review)
    back = review.to(draft, by="manager")
    approve = review.to(paid, by="manager")
    expire = review.on_deadline.to(refused)
    pay = draft.to(paying)
    done = paying.on_done.to(paid)
    broken = paying.on_error.to(refused)


FAIR = {"fair": True}


async def flaws(harness: Harness) -> list[str]:
    """What an audit finds."""
    return [str(flaw) async for flaw in Audit(harness.node.engine.store).everything()]


TAMPERINGS = {
    "a word is changed": "UPDATE history SET actor = 'eve' WHERE instance = 'a' AND event = 'approve'",
    "a time is changed": (
        "UPDATE history SET at = (SELECT max(at) FROM history) WHERE instance = 'a' AND seq = 1"
    ),
    "what was asked is changed": (
        "UPDATE history SET note = '[]' WHERE instance = 'a' AND note LIKE '%open_ask%'"
    ),
    "a line is taken out": "DELETE FROM history WHERE instance = 'a' AND seq = 2",
    "the last line is taken out": "DELETE FROM history WHERE instance = 'a' AND event = 'approve'",
    "the first line is taken out": "DELETE FROM history WHERE instance = 'a' AND seq = 1",
    "all lines are taken out": "DELETE FROM history WHERE instance = 'a'",
    "all lines are taken out of one that never was": (
        "DELETE FROM history WHERE instance = 'a'; UPDATE instance SET journal = '' WHERE id = 'a'"
    ),
    "lines change places": ("UPDATE history SET seq = 5 - seq WHERE instance = 'a' AND seq BETWEEN 2 AND 3"),
    "a line comes from another instance": (
        "UPDATE history SET instance = 'a' WHERE instance = 'b' AND seq = 2"
    ),
    "the instance is taken out": "DELETE FROM instance WHERE id = 'a'",
    "the instance is set back": "UPDATE instance SET journal = '', seq = 1 WHERE id = 'a'",
    "the instance is set back to a line": (
        "UPDATE instance SET journal = (SELECT hash FROM history WHERE instance = 'a' AND seq = 3)"
        " WHERE id = 'a'"
    ),
    "the instance is set back with its history": (
        "DELETE FROM history WHERE instance = 'a' AND event = 'approve';"
        " UPDATE instance SET journal = (SELECT hash FROM history WHERE instance = 'a' AND seq = 4)"
        " WHERE id = 'a'"
    ),
    "what it knows is changed": (
        "UPDATE instance SET snapshot = replace(snapshot, '\"amount\":3', '\"amount\":9') WHERE id = 'a'"
    ),
    "where it is is changed": (
        "UPDATE instance SET snapshot = replace(snapshot, '\"paid\"', '\"refused\"') WHERE id = 'a'"
    ),
    "two change their snapshots": (
        "UPDATE instance SET snapshot = (SELECT other.snapshot FROM instance AS other WHERE other.id ="
        " CASE instance.id WHEN 'a' THEN 'b' ELSE 'a' END) WHERE id IN ('a', 'b')"
    ),
    "its status is changed": "UPDATE instance SET status = 'refused' WHERE id = 'a'",
    "its number is changed": "UPDATE instance SET seq = 99 WHERE id = 'a'",
    "its version is changed": "UPDATE instance SET version = 7 WHERE id = 'a'",
    "its end is changed": "UPDATE instance SET ended = NOT ended WHERE id = 'a'",
    "its owner is changed": "UPDATE instance SET owner = 'eve' WHERE id = 'a'",
    "its parent is changed": "UPDATE instance SET parent = 'b' WHERE id = 'a'",
    "its seal is taken away": "UPDATE instance SET seal = '' WHERE id = 'a'",
    "who answered is changed": "UPDATE ask SET closed_by = 'eve' WHERE instance = 'a'",
    "its questions are taken out": "DELETE FROM ask WHERE instance = 'a'",
    "a question is put in": "UPDATE ask SET instance = 'a' WHERE instance = 'b'",
    "its snapshot is no more": "UPDATE instance SET snapshot = '{' WHERE id = 'a'",
    "its questions are no more": "UPDATE ask SET roles = '[' WHERE instance = 'a'",
    "the version of its chart is taken out": "DELETE FROM chart_version",
}
TAMPERINGS_OF_THE_OPEN = {
    "what is shown is changed": "UPDATE ask SET shows = '{\"amount\":1}' WHERE instance = 'c'",
    "what is shown is no more": "UPDATE ask SET shows = '{' WHERE instance = 'c'",
    "what may be answered is changed": "UPDATE ask SET answers = '[\"back\"]' WHERE instance = 'c'",
    "who may answer is changed": "UPDATE ask SET roles = '[\"clerk\"]' WHERE instance = 'c'",
    "a question is closed": "UPDATE ask SET closed_at = opened_at, closed_by = 'eve' WHERE instance = 'c'",
    "its timer is taken out": "DELETE FROM timer WHERE instance = 'c'",
    "its timer is changed": (
        "UPDATE timer SET due = (SELECT min(at) FROM history WHERE instance = 'c') WHERE instance = 'c'"
    ),
    "its timer is due years later": "UPDATE timer SET due = LATER(due) WHERE instance = 'c'",
    "its timer sends another event": "UPDATE timer SET event = 'reminder.review' WHERE instance = 'c'",
    "its work is taken out": "DELETE FROM work WHERE instance = 'd'",
    "its work is changed": "UPDATE work SET attempt = 2 WHERE instance = 'd'",
    "its work is for another handler": "UPDATE work SET handler = 'refund' WHERE instance = 'd'",
    "its work is in another queue": "UPDATE work SET queue = 'nobody' WHERE instance = 'd'",
    "its work is due years later": "UPDATE work SET due = LATER(due) WHERE instance = 'd'",
    "its work is of another version": "UPDATE work SET version = 9 WHERE instance = 'd'",
    "its work is of another chart": "UPDATE work SET chart = 'Other' WHERE instance = 'd'",
    "its timer is of another version": "UPDATE timer SET version = 9 WHERE instance = 'c'",
    "its work is less urgent": "UPDATE work SET priority = -9 WHERE instance = 'd'",
    "its work may take longer": "UPDATE work SET timeout = 1000000000 WHERE instance = 'd'",
    "its work is leased for longer": "UPDATE work SET lease = 1000000000 WHERE instance = 'd'",
    "its work is of another state": "UPDATE work SET state = 'draft' WHERE instance = 'd'",
    "its work is bound to a worker": "UPDATE work SET affinity = 'browser' WHERE instance = 'd'",
    "its work takes turns": "UPDATE work SET concurrency = 'one' WHERE instance = 'd'",
    "its work is leased for ever": (
        "UPDATE work SET worker = 'eve', started_at = due, leased_until = LATER(due) WHERE instance = 'd'"
    ),
    "its question is in nobody's inbox": "DELETE FROM ask_audience",
    "its question is in another's inbox": "UPDATE ask_audience SET audience = 'clerk'",
    "its question is in another's inbox, too": (
        "INSERT INTO ask_audience (tenant, audience, opened_at, ask)"
        " SELECT tenant, '@eve', opened_at, ask FROM ask_audience"
    ),
}
OF_THE_OPEN = ("default/c at 2: the ", "default/d at 2: the work ", "default/c at 0: the index of the inbox ")
YEARS_LATER = {"sqlite": r"\1 + 315360000000000", "postgresql": r"\1 + interval '10 years'"}
TAMPERINGS_OF_CHARTS = {
    "what it asks for is changed": "UPDATE chart_version SET document = replace(document, 'fair', 'foul')",
    "its document is no more": "UPDATE chart_version SET document = '{'",
    "it is that of another version": "UPDATE chart_version SET version = 2",
}
OUT_OF_TIME = {"sqlite": "9223372036854775807", "postgresql": "'294276-01-01'"}
"""A time that the database can hold, and nobody else."""
OUT_OF_REACH = {
    "UPDATE history SET at = {time} WHERE instance = 'a' AND seq = 3": "default/a at 2: ",
    "UPDATE instance SET created_at = {time} WHERE id = 'a'": "default/a at 0: ",
    "UPDATE ask SET opened_at = {time} WHERE instance = 'a'": "default/a at 5: ",
    "UPDATE timer SET due = {time} WHERE instance = 'c'": "default/c at 2: ",
    "UPDATE chart_version SET stored_at = {time}": "the versions of charts cannot be read",
}


async def lived(harness: Harness) -> None:
    """Two claims that have gone the same way."""
    for name in "ab":
        (await harness.tenant.create(Claim, name, {"amount": 3})).unwrap()
        for event in (Claim.submit(), Claim.back(FAIR, by=ANN), Claim.submit(), Claim.approve(FAIR, by=ANN)):
            harness.clock.advance("1s")
            (await harness.tenant.send(name, event)).unwrap()


async def lives(harness: Harness) -> None:
    """One claim that waits for a person, and one that waits for a worker."""
    for name, event in {"c": Claim.submit(), "d": Claim.pay()}.items():
        (await harness.tenant.create(Claim, name, {"amount": 3})).unwrap()
        (await harness.tenant.send(name, event)).unwrap()


async def found_after(harness: Harness, database: str, tampering: str) -> list[str]:
    """What an audit finds that found nothing before."""
    await lived(harness)
    await lives(harness)
    assert await flaws(harness) == []
    await tampered(database, tampering)
    return await flaws(harness)


async def tampered(database: str, statement: str) -> None:
    """Change a database by another way than the engine's."""
    later = YEARS_LATER[database.partition(":")[0]]
    async with database_at(database) as opened:
        await opened.execute(re.sub(r"LATER\((\w+)\)", later, statement))


@pytest.mark.parametrize("tampering", TAMPERINGS.values(), ids=TAMPERINGS)
async def test_every_tampering_is_found(database: str, clock: FakeClock, tampering: str) -> None:
    """A journal as the engine wrote it has no flaw; each way of meddling with it shows."""
    async with Harness(Claim, database=database, clock=clock) as harness:
        found = await found_after(harness, database, tampering)
        assert any(flaw.startswith("default/a ") for flaw in found)


@pytest.mark.parametrize("tampering", TAMPERINGS_OF_THE_OPEN.values(), ids=TAMPERINGS_OF_THE_OPEN)
async def test_what_an_instance_waits_for_is_what_its_history_says(
    database: str, clock: FakeClock, tampering: str
) -> None:
    """A question, a timer and a piece of work that were changed or taken out show, and nothing else does."""
    async with Harness(Claim, database=database, clock=clock) as harness:
        found = await found_after(harness, database, tampering)
        assert found
        assert all(flaw.startswith(OF_THE_OPEN) for flaw in found)


@pytest.mark.parametrize("tampering", TAMPERINGS_OF_CHARTS.values(), ids=TAMPERINGS_OF_CHARTS)
async def test_charts_are_what_they_were_when_they_were_stored(
    database: str, clock: FakeClock, tampering: str
) -> None:
    """The stored version of a chart that was changed shows."""
    async with Harness(Claim, database=database, clock=clock) as harness:
        found = await found_after(harness, database, tampering)
        assert found[0].startswith("chart Claim v")


@pytest.mark.parametrize(("tampering", "begins"), OUT_OF_REACH.items())
async def test_what_cannot_be_read_is_a_flaw(
    database: str, clock: FakeClock, tampering: str, begins: str
) -> None:
    """A time beyond the calendar ends no audit: it is told with its place, and the others are looked at."""
    time = OUT_OF_TIME[database.partition(":")[0]]
    async with Harness(Claim, database=database, clock=clock) as harness:
        found = await found_after(harness, database, tampering.format(time=time))
        assert [flaw for flaw in found if flaw.startswith(begins) and "cannot be read" in flaw]
        assert not [flaw for flaw in found if flaw.startswith("default/b")]


class Meanwhile:
    """A store in which something happens before one of an audit's reads, or before each from that one on."""

    def __init__(
        self, store: Store, moment: int, happens: Callable[[], Awaitable[object]], *, once: bool = True
    ) -> None:
        self._store, self._moment, self._happens, self._once = store, moment, happens, once
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        """A method of the store, or a noun, whose reads come after what happens before them."""
        found = getattr(self._store, name)
        return (
            self._read(found)
            if callable(found)
            else _Reads(lambda method: self._read(getattr(found, method)))
        )

    def _read(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def read(*given: Any, **named: Any) -> Any:
            self.reads += 1
            if self.reads == self._moment or (self.reads > self._moment and not self._once):
                await self._happens()
            return await method(*given, **named)

        return read


class _Reads:
    """A noun of a store, by its methods."""

    def __init__(self, method: Callable[[str], Any]) -> None:
        self._method = method

    def __getattr__(self, name: str) -> Any:
        return self._method(name)


async def moved(harness: Harness) -> None:
    """A claim goes on."""
    (await harness.tenant.send("c", Claim.submit())).unwrap()


async def pruned(harness: Harness) -> None:
    """The claims that have ended are deleted."""
    store = harness.node.engine.store
    await store.instances.prune(await store.now(), limit=10)


async def pruned_and_created_anew(harness: Harness) -> None:
    """The claims that have ended are deleted, and others get their names."""
    await pruned(harness)
    await lived(harness)


async def pruned_in_part(harness: Harness) -> None:
    """The process that deletes claims is killed after its first transaction."""
    whole, turns = sqlite_instances.prune_ended, iter([True])

    def once(*given: Any, **named: Any) -> tuple[int, bool]:
        return whole(*given, **named) if next(turns, False) else (0, True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_instances, "prune_ended", once)
        await pruned(harness)


@pytest.mark.parametrize("happens", [moved, pruned, pruned_and_created_anew, pruned_in_part])
async def test_what_the_engine_does_during_an_audit_is_no_flaw(
    database: str,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[[Harness], Awaitable[None]],
) -> None:
    """Before any read of an audit instances may move, and be deleted with their history, or some of it."""
    monkeypatch.setattr(sqlite_instances, "LINES", 3)
    monkeypatch.setattr(audit, "PAGE", 2)
    async with Harness(Claim, database=database, clock=clock) as harness:
        for moment in range(1, MOST_READS):
            await lived(harness)
            (await harness.tenant.create(Claim, "c")).unwrap()
            clock.advance("1d")
            audited = Meanwhile(harness.node.engine.store, moment, partial(happens, harness))
            assert [str(flaw) async for flaw in Audit(cast("Store", audited)).everything()] == []
            for event in (Claim.submit(), Claim.approve(FAIR, by=ANN)):
                await answer_to(harness.tenant.send("c", event))
            clock.advance("1d")
            await pruned(harness)
        assert audited.reads < MOST_READS


async def moved_on(harness: Harness) -> None:
    """A claim goes to and fro."""
    if isinstance(await answer_to(harness.tenant.send("c", Claim.submit())), Refusal):
        (await harness.tenant.send("c", Claim.back(FAIR, by=ANN))).unwrap()


@pytest.mark.parametrize("happens", [moved_on, pruned_in_part])
async def test_what_happens_all_the_while_is_no_flaw(
    database: str,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[[Harness], Awaitable[None]],
) -> None:
    """An audit ends, and finds nothing, though an instance moves or loses lines before each of its reads."""
    monkeypatch.setattr(sqlite_instances, "LINES", 1)
    async with Harness(Claim, database=database, clock=clock) as harness:
        for moment in range(1, 20):
            await lived(harness)
            (await harness.tenant.create(Claim, "c")).unwrap()
            clock.advance("1d")
            store = harness.node.engine.store
            audited = Meanwhile(store, moment, partial(happens, harness), once=False)
            assert [str(flaw) async for flaw in Audit(cast("Store", audited)).everything()] == []
            for event in (Claim.submit(), Claim.approve(FAIR, by=ANN)):
                await answer_to(harness.tenant.send("c", event))
            clock.advance("1d")
            await pruned(harness)


@pytest.mark.parametrize("lines", range(1, 6))
async def test_a_history_of_which_a_part_is_pruned_is_whole(
    tmp_path: Any, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    """Wherever a long pruning is interrupted, what is left is what the engine left; other gaps still show."""
    monkeypatch.setattr(sqlite_instances, "LINES", lines)
    database = f"sqlite:///{tmp_path}/headway.db"
    async with Harness(Claim, database=database, clock=clock) as harness:
        await lived(harness)
        clock.advance("1d")
        await pruned_in_part(harness)
        assert len(await harness.tenant.history("a")) == 5 - lines
        assert await flaws(harness) == []
        async with database_at(database) as opened:
            await opened.execute("UPDATE instance SET pruned = NULL WHERE id = 'a'")
        assert await flaws(harness) != []
        await pruned(harness)
        assert await flaws(harness) == []


async def test_a_history_that_goes_on_was_not_pruned(tmp_path: Any, clock: FakeClock) -> None:
    """Who takes lines of a living instance and says that they were pruned is found out."""
    database = f"sqlite:///{tmp_path}/headway.db"
    async with Harness(Claim, database=database, clock=clock) as harness:
        gap = (
            "UPDATE instance SET pruned = (SELECT hash FROM history WHERE instance = 'c' AND seq = 1)"
            " WHERE id = 'c'; DELETE FROM history WHERE instance = 'c' AND seq = 1"
        )
        assert await found_after(harness, database, gap) == ["default/c at 2: lines after 0 are missing"]


async def test_a_decision_keeps_what_the_person_saw(database: str, clock: FakeClock) -> None:
    """The line of an answer names the question, and that question's line what it showed, and to whom."""
    async with Harness(Claim, database=database, clock=clock) as harness:
        await lived(harness)
        lines = await harness.tenant.history("a")
        answered: list[dict[str, Any]] = decode(list[dict[str, Any]], lines[-1].note or "")
        [asked] = [effect for effect in await asked_of(harness, "a") if effect["ask"] == answered[0]["ask"]]
        assert (asked["shows"], asked["roles"], lines[-1].version) == ({"amount": 3}, ["manager"], 1)
        assert (answered[0]["by"], answered[0]["event"]) == ("ann", "approve")
        row = await harness.node.engine.store.asks.get(("default", asked["ask"]))
        assert row is not None
        assert asked["schema"] == await harness.node.asks.form(row)
        assert [*asked["schema"]["properties"]] == ["fair", "why"]


@dataclass
class Sentence(Verdict):
    """What a manager says from now on."""

    weight: int = 0


class Later(Statechart, name="Claim", version=2, upgrades={1: Upgrade()}):
    """The same claim; its managers are asked for more."""

    draft = State(initial=True)
    review = State(ask=Ask("manager", form=Sentence, deadline="2d", shows="amount"))
    paying = State(run="pay")
    paid, refused = Final(), Final()
    submit = draft.to(review)
    back = review.to(draft, by="manager")
    approve = review.to(paid, by="manager")
    expire = review.on_deadline.to(refused)
    pay = draft.to(paying)
    done = paying.on_done.to(paid)
    broken = paying.on_error.to(refused)


@pytest.mark.mission("ENG-7", "ENG-19")
async def test_a_question_that_is_put_anew_keeps_the_new_form(database: str, clock: FakeClock) -> None:
    """Who answers after an upgrade saw the form of the new version, and the history of both is whole."""
    async with Harness(Claim, database=database, clock=clock) as harness:
        await lives(harness)
    async with Harness(Claim, Later, database=database, clock=clock) as harness:
        await upgrade(harness.node.engine, "Claim", 2)
        first, second = await asked_of(harness, "c")
        assert [*first["schema"]["properties"]] == ["fair", "why"]
        assert [*second["schema"]["properties"]] == ["fair", "why", "weight"]
        assert await flaws(harness) == []


async def asked_of(harness: Harness, name: str) -> list[dict[str, Any]]:
    """The questions of an instance, as its history tells them."""
    return [
        effect
        for line in await harness.tenant.history(name)
        for effect in decode(list[dict[str, Any]], line.note or "[]")
        if effect["do"] in {"open_ask", "renew_ask"}
    ]


FIELDS: dict[str, Any] = {
    "tenant": "t", "instance": "i", "seq": 1, "row": 0, "at": None, "event": "e", "transition": "e",
    "before": "", "after": "a", "actor": "ann", "reason": None, "attempt": 1, "data": None, "version": 1,
    "note": None, "since": None,
}  # fmt: skip


def test_a_new_column_leaves_older_lines_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line is judged by the scheme it was written under, and an older scheme cannot follow a newer one."""
    old_fields = {name: value for name, value in FIELDS.items() if name != "note"}
    monkeypatch.setattr(journal, "LINES", {1: attrgetter(*old_fields), 2: attrgetter(*FIELDS)})
    old = HistoryRow(**FIELDS, hash=journal._hash(1, encode([*old_fields.values()])))
    monkeypatch.setattr(journal, "SCHEME", 2)
    new = journal.chained(old.hash, HistoryRow(**(FIELDS | {"seq": 2, "note": "seen"}), hash=""))
    assert new.hash.startswith("2:")
    assert journal.follows(old, "")
    assert journal.follows(new, old.hash)
    assert not journal.follows(replace(new, note="unseen"), old.hash)
    back = [value for name, value in (FIELDS | {"seq": 3}).items() if name != "note"]
    relabelled = replace(new, seq=3, hash=journal._hash(1, new.hash.encode() + encode(back)))
    assert not journal.follows(relabelled, new.hash)
    assert not journal.follows(replace(new, hash=new.hash.replace("2:", "3:")), old.hash)
