"""The journal: whoever changes history by another way than the engine's is found out."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

import pytest

from headway import Ask, Final, State, Statechart, person
from headway.codec import decode
from headway.engine.audit import Audit
from headway.store.address import database_at
from headway.store.port import Store
from headway.testing import FakeClock, Harness

pytestmark = pytest.mark.mission("ENG-7")

ANN = person("ann", "manager")
MOST_READS = 25


class Claim(Statechart):
    """Asks a manager, who sees the amount."""

    draft = State(initial=True)
    review = State(ask=Ask("manager", deadline="2d", shows="amount"))
    paid, refused = Final(), Final()
    submit = draft.to(review)
    back = review.to(draft, by="manager")
    approve = review.to(paid, by="manager")
    expire = review.on_deadline.to(refused)


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
    "lines change places": ("UPDATE history SET seq = 5 - seq WHERE instance = 'a' AND seq BETWEEN 2 AND 3"),
    "a line comes from another instance": (
        "UPDATE history SET instance = 'a' WHERE instance = 'b' AND seq = 2"
    ),
    "the instance is taken out": "DELETE FROM instance WHERE id = 'a'",
    "the instance is set back": "UPDATE instance SET journal = '', seq = 1 WHERE id = 'a'",
}


async def lived(harness: Harness) -> None:
    """Two claims that have gone the same way."""
    for name in "ab":
        (await harness.tenant.create(Claim, name, {"amount": 3})).unwrap()
        for event in (Claim.submit(), Claim.back(by=ANN), Claim.submit(), Claim.approve(by=ANN)):
            harness.clock.advance("1s")
            (await harness.tenant.send(name, event)).unwrap()


@pytest.mark.parametrize("tampering", TAMPERINGS.values(), ids=TAMPERINGS)
async def test_every_tampering_is_found(database: str, clock: FakeClock, tampering: str) -> None:
    """A journal as the engine wrote it has no flaw; each way of meddling with it shows."""
    async with Harness(Claim, database=database, clock=clock) as harness:
        await lived(harness)
        assert await flaws(harness) == []
        async with database_at(database) as opened:
            await opened.execute(tampering)
        found = await flaws(harness)
        assert found
        assert any(flaw.startswith("default/a ") for flaw in found)


class Meanwhile:
    """A store in which something happens before one of an audit's reads."""

    def __init__(self, store: Store, moment: int, happens: Callable[[], Awaitable[object]]) -> None:
        self._store, self._moment, self._happens, self.reads = store, moment, happens, 0

    def __getattr__(self, name: str) -> Any:
        """A read of the store, after what happens before it."""

        async def read(*given: Any, **named: Any) -> Any:
            self.reads += 1
            if self.reads == self._moment:
                await self._happens()
            return await getattr(self._store, name)(*given, **named)

        return read


async def moved(harness: Harness) -> None:
    """A claim goes on."""
    (await harness.tenant.send("c", Claim.submit())).unwrap()


async def pruned(harness: Harness) -> None:
    """The claims that have ended are deleted."""
    store = harness.node.engine.store
    await store.prune_instances(await store.now(), limit=10)


@pytest.mark.parametrize("happens", [moved, pruned])
async def test_what_the_engine_does_during_an_audit_is_no_flaw(
    database: str, clock: FakeClock, happens: Callable[[Harness], Awaitable[None]]
) -> None:
    """Before any read of an audit instances may move, and be deleted with their history."""
    async with Harness(Claim, database=database, clock=clock) as harness:
        (await harness.tenant.create(Claim, "c")).unwrap()
        for moment in range(1, MOST_READS):
            await lived(harness)
            clock.advance("1d")
            audited = Meanwhile(harness.node.engine.store, moment, partial(happens, harness))
            assert [str(flaw) async for flaw in Audit(cast("Store", audited)).everything()] == []
            await harness.tenant.send("c", Claim.back(by=ANN))
            await pruned(harness)
        assert audited.reads < MOST_READS


async def test_a_decision_keeps_what_the_person_saw(database: str, clock: FakeClock) -> None:
    """The line of an answer names the question, and that question's line what it showed, and to whom."""
    async with Harness(Claim, database=database, clock=clock) as harness:
        await lived(harness)
        lines = await harness.tenant.history("a")
        answered: list[dict[str, Any]] = decode(list[dict[str, Any]], lines[-1].note or "")
        [asked] = [
            effect
            for line in lines
            for effect in decode(list[dict[str, Any]], line.note or "[]")
            if effect["do"] == "open_ask" and effect["ask"] == answered[0]["ask"]
        ]
        assert (asked["shows"], asked["roles"], lines[-1].version) == ({"amount": 3}, ["manager"], 1)
        assert (answered[0]["by"], answered[0]["event"]) == ("ann", "approve")
