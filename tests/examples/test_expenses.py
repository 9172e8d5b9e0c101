"""The example is what the tutorial says it is, and survives what the tutorial does to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.expenses import bank
from examples.expenses.chart import Expense
from examples.expenses.handlers import handlers
from headway import person
from headway.statechart.check.check import check
from headway.testing import FakeClock, Harness
from tests.docs.pages import ROOT, TERMINAL, Block, blocks
from tests.docs.test_examples import PAGES
from tests.examples.terminals import Terminals
from tests.examples.test_service_tutorial import PAGE as SERVICE

TUTORIAL = ROOT / "docs/tutorials/crash-recovery.md"
TEXT = TUTORIAL.read_text(encoding="utf-8")
BOB = person("bob", "manager")


@pytest.mark.mission("ENG-3", "ENG-8", "ENG-9", "ENG-10", "ENG-11")
def test_a_reader_who_kills_the_process_loses_nothing(tmp_path: Path) -> None:
    """The tutorial, played with real processes and kill -9: the claim is paid, each receipt once."""
    Terminals(tmp_path).play(TEXT)


def played() -> Iterator[tuple[Path, Block]]:
    """The blocks of all pages that need terminals."""
    for page in PAGES:
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.note.startswith(TERMINAL):
                yield page, block


def test_no_page_shows_terminals_that_nobody_plays() -> None:
    """What the pages' own test leaves to this one is played here, all of it."""
    assert {page for page, _ in played()} == {TUTORIAL, SERVICE}


@pytest.mark.mission("ENG-18")
def test_the_checker_has_nothing_against_the_chart() -> None:
    """Whoever copies it copies a sound one."""
    assert check(Expense, handlers.names).findings == ()


@pytest.mark.mission("ENG-10", "ENG-11")
async def test_the_bank_is_asked_again_and_pays_once(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two failures and a fresh attempt after each: no receipt is paid twice, none is left out."""

    async def at_once(_seconds: float) -> None:
        """Do not wait for the bank."""

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("examples.expenses.handlers.asyncio.sleep", at_once)
    async with Harness(Expense, handlers=handlers, clock=clock) as office:
        await office.tenant.create(Expense, "claim-1", {"what": "train", "receipts": 4})
        (await office.tenant.send("claim-1", Expense.approve(by=BOB))).unwrap()
        await office.advance("10s")
        assert (await office.tenant.get("claim-1")).state == "paid"
        assert bank.sums() == (4, 4)


@pytest.mark.mission("ENG-8", "ENG-9")
async def test_a_claim_that_nobody_decides_is_rejected(clock: FakeClock) -> None:
    """After ten minutes, with a reminder every three seconds until then."""
    async with Harness(Expense, clock=clock) as office:
        await office.tenant.create(Expense, "claim-1", {"what": "train", "receipts": 4})
        await office.advance("10m")
        assert (await office.tenant.get("claim-1")).state == "rejected"
        events = [line.event for line in await office.tenant.history("claim-1", limit=500)]
        assert events.count("remind.review") == 199
