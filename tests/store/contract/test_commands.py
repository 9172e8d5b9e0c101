"""Commands of units: their writes and those of the unit are one transaction."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headway.errors import StoreError
from headway.store.port import Store
from headway.store.queries import Claim, LetterQuery, WorkQuery
from headway.store.rows import RequestRow
from headway.store.unit import (
    Changes,
    ClaimWork,
    Command,
    DiscardLetters,
    Found,
    HastenWork,
    LookUpInstances,
    Reads,
    RedriveLetters,
)
from tests.store.contract.acts import found, writing
from tests.store.contract.place import INSTANCE, KNOWN, LONG_AGO, NEVER, REQUEST, letter, work
from tests.store.contract.test_letters import keep

NAME = (REQUEST.tenant, REQUEST.key)
CLAIM = ClaimWork(Claim("w", ("default",), 10, KNOWN))


class Commanding:
    """A unit that runs one command after the other, and then writes."""

    def __init__(self, *commands: Command, requests: list[RequestRow] | None = None) -> None:
        self._commands, self._requests = commands, requests or []
        self.results: list[Any] = []

    def begin(self) -> Reads:
        """Say that commands follow."""
        self.results, self._left = [], [*self._commands]
        return Reads(has_commands=True)

    def take(self, seen: Found) -> Reads | None:
        """Run the next one."""
        self.results += seen.results
        if not self._left:
            return None
        return Reads(commands=(self._left.pop(0),), has_commands=True)

    def changes(self) -> Changes:
        """What is to be written with them."""
        return Changes(requests=self._requests)


class Unsure(Commanding):
    """Breaks after its commands were run."""

    def changes(self) -> Changes:
        """Break."""
        raise ValueError("not after all")


class Careful(Commanding):
    """Runs its commands only if nobody has the answer yet."""

    def begin(self) -> Reads:
        """Look for the answer."""
        super().begin()
        return Reads(requests={NAME}, has_commands=True)

    def take(self, seen: Found) -> Reads | None:
        """Be content with an answer that is there."""
        if seen.requests:
            self._left, self._requests = [], []
        return super().take(seen)


async def claimed(store: Store) -> list[str]:
    """The work that somebody holds."""
    return [row.id for row in await store.work.page(WorkQuery("acme", leased=True))]


class TestCommands:
    """What a store promises of commands."""

    async def test_each_command_answers_as_the_call_does(self, store: Store) -> None:
        """Work that is claimed and hastened, letters that are redriven and discarded, instances."""
        await store.run(writing(created=[INSTANCE], work=[work("w1", due=LONG_AGO), work("w2", due=NEVER)]))
        await keep(store, letter(1, dead=True), letter(2, dead=True))
        unit = Commanding(
            CLAIM,
            HastenWork((("acme", "w2", 1), ("acme", "none", 1))),
            RedriveLetters(LetterQuery("a", "acme", ids=("m1",), dead=True)),
            DiscardLetters(LetterQuery("a", "acme", dead=True)),
            LookUpInstances((("acme", "i1"), ("acme", "none"))),
        )
        await store.run(unit)
        [rows, *rest] = unit.results
        assert [(row.id, row.worker) for row in rows] == [("w1", "w")]
        assert rest == [[("acme", "w2")], 1, 1, [INSTANCE]]
        assert [(row.id, row.dead) for row in await store.letters.page(LetterQuery("a"))] == [("m1", False)]
        assert [row.id for row in await store.work.claim(CLAIM.claim)] == ["w2"]

    async def test_what_a_command_has_written_goes_with_the_unit(self, store: Store) -> None:
        """A unit that breaks after its commands leaves nothing of them."""
        await store.run(writing(work=[work("w1", due=LONG_AGO)]))
        await keep(store, letter(1, dead=True))
        discard = DiscardLetters(LetterQuery("a", "acme", dead=True))
        with pytest.raises(ValueError, match="not after all"):
            await store.run(Unsure(CLAIM, discard))
        assert await claimed(store) == []
        assert len(await store.letters.page(LetterQuery("a"))) == 1

    async def test_a_command_is_undone_when_its_unit_collides(self, store: Store) -> None:
        """A request id that has an answer already is not written, and so nothing else is."""
        await store.run(writing(work=[work("w1", due=LONG_AGO)], requests=[REQUEST]))
        with pytest.raises(StoreError):
            await store.run(Commanding(CLAIM, requests=[REQUEST]))
        assert await claimed(store) == []

    async def test_of_units_with_one_request_id_one_runs_its_commands(self, store: Store) -> None:
        """However many come at once, one claims, and its answer is written with what it has claimed."""
        await store.run(writing(work=[work(f"w{n}", due=LONG_AGO) for n in range(8)]))
        one = ClaimWork(Claim("w", ("default",), 1, KNOWN))
        units = [Careful(one, requests=[REQUEST]) for _ in range(8)]
        await asyncio.gather(*(store.run(unit) for unit in units))
        assert len(await claimed(store)) == 1
        assert sum(len(unit.results) for unit in units) == 1
        assert (await found(store, requests={NAME})).requests[NAME] == REQUEST
