"""Drawings of charts: each is made once, and however many ask, few programs run at a time."""

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway import Final, State, Statechart
from headway.drawing import AT_ONCE, Drawings
from headway.errors import DrawingError
from headway.statechart.chart import Charted
from tests.api.serving import serving

pytestmark = pytest.mark.mission("ENG-18")
DOT = """#!/bin/sh
source=$(cat)
echo "begun $$ $(ulimit -v) $(nice)" >> "{log}"
how=$(dd bs=1 count=1 2>/dev/null < "{gate}")
echo "ended" >> "{log}"
[ "$how" = d ] && echo "<svg>drawn</svg>"
"""


def chart_named(name: str) -> Charted:
    """A small chart."""

    class Small(Statechart, name=name):
        """On, then off."""

        on = State(initial=True)
        off = Final()
        stop = on.to(off)

    return Small


CHARTS = [chart_named(f"Small{number}") for number in range(6)]


class Program:
    """A stand-in for `dot`: it logs its runs, and each draws or fails when the test says so."""

    def __init__(self, folder: Path) -> None:
        self.log, gate, program = folder / "log", folder / "gate", folder / "dot"
        self.log.touch()
        os.mkfifo(gate)
        self.gate = os.open(gate, os.O_RDWR)
        program.write_text(DOT.format(log=self.log, gate=gate))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def lines(self, word: str) -> list[str]:
        """The lines of the log that begin with a word."""
        return [line for line in self.log.read_text().splitlines() if line.startswith(word)]

    @property
    def most_at_once(self) -> int:
        """How many ran at a time, at most."""
        running, most = 0, 0
        for line in self.log.read_text().splitlines():
            running += 1 if line.startswith("begun") else -1
            most = max(most, running)
        return most

    def let(self, how: str) -> None:
        """Let one run go on: it is to `draw`, or to `fail`. Two runs that read cannot share one byte."""
        os.write(self.gate, how[:1].encode())

    async def begun(self, count: int) -> None:
        """Wait until so many have begun in all."""
        async with asyncio.timeout(30):
            while len(self.lines("begun")) < count:  # noqa: ASYNC110 - another process does it
                await asyncio.sleep(0.005)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    """The stand-in, first on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    made = Program(folder)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    yield made
    os.close(made.gate)


async def test_many_callers_share_few_programs(tmp_path: Path, program: Program) -> None:
    """Of 120 calls each drawing is made once, few at a time, and another tenant is served meanwhile."""
    async with (
        serving(f"sqlite:///{tmp_path}/h.db", CHARTS) as service,
        service.as_("read", "send", tenant="other") as other,
    ):
        paths = [f"/v1/charts/{chart.chart.name}/diagram.svg" for chart in CHARTS] * 20
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(service.client.get(path, timeout=300)) for path in paths]
            await program.begun(AT_ONCE)
            assert (await other.post("/v1/instances", json={"chart": "Small0"})).status_code == 201
            assert len(program.lines("begun")) == AT_ONCE
            for _ in CHARTS:
                program.let("draw")
        assert {(call.result().status_code, call.result().content) for call in calls} == {
            (200, b"<svg>drawn</svg>\n")
        }
        assert (await service.client.get(paths[0])).content == b"<svg>drawn</svg>\n"
    assert (len(program.lines("begun")), program.most_at_once) == (len(CHARTS), AT_ONCE)


async def test_a_program_is_bounded_in_memory_and_gives_way(program: Program) -> None:
    """It may use only so much memory, and runs at a lower priority than the service."""
    program.let("draw")
    await Drawings().draw(CHARTS[0])
    [_, _, memory, priority] = program.lines("begun")[0].split()
    assert memory != "unlimited"
    assert int(priority) > os.nice(0)


async def test_what_failed_is_tried_again(program: Program) -> None:
    """A failure is told to all who wait for it, and kept for nobody who comes later."""
    drawings = Drawings()
    waiting = [asyncio.create_task(drawings.draw(CHARTS[0])) for _ in range(3)]
    program.let("fail")
    told = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in told] == [DrawingError] * 3
    program.let("draw")
    assert await drawings.draw(CHARTS[0]) == b"<svg>drawn</svg>\n"
    assert len(program.lines("begun")) == 2


async def test_who_goes_away_takes_nothing_from_others(program: Program) -> None:
    """The first caller's going does not end a drawing that another waits for."""
    drawings = Drawings()
    first = asyncio.create_task(drawings.draw(CHARTS[0]))
    await program.begun(1)
    second = asyncio.create_task(drawings.draw(CHARTS[0]))
    first.cancel()
    program.let("draw")
    assert await second == b"<svg>drawn</svg>\n"
    assert len(program.lines("begun")) == 1


async def test_only_so_many_drawings_are_kept(program: Program) -> None:
    """The one that nobody has asked for the longest is made anew."""
    drawings = Drawings(most=2)
    for number in (0, 1, 0, 2, 0, 1):
        program.let("draw")
        await drawings.draw(CHARTS[number])
    assert len(program.lines("begun")) == 4
