"""The simulator: it finds bugs, says how, and lives every world the same way twice."""

import asyncio
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from examples.expenses.chart import Expense
from headway import Final, Run, State, Statechart, Upgrade
from headway.testing.simulate import GuaranteeError, Scenario, World, simulate
from headway.testing.simulate.__main__ import main
from headway.testing.simulate.loop import Loop, StandstillError, context_of, new_loop
from headway.testing.simulate.runs import general
from headway.worker import Handlers, Work
from tests.simulate.bugs import BUGS, Bug
from tests.simulate.losses import LOSSES

pytestmark = pytest.mark.mission(
    "ENG-3", "ENG-4", "ENG-5", "ENG-6", "ENG-7", "ENG-9", "ENG-10", "ENG-12", "ENG-19"
)

WORLDS = 150
ENOUGH = 300
"""Within so many worlds each planted bug is found."""


@pytest.mark.parametrize("share", range(6))
def test_every_guarantee_holds_in_many_worlds(share: int) -> None:
    """Crashes, outages, late workers, repeated calls, moved clocks and new versions break nothing."""
    assert simulate(seeds=range(share, WORLDS, 6)) == WORLDS // 6


def test_a_parent_that_mends_its_errors_while_a_report_is_under_way_is_counted_rightly() -> None:
    """What a parent did to its own errors before it heard of its child is part of the next recount."""
    assert simulate(seeds=[12_082]) == 1


@pytest.mark.parametrize("bug", [*BUGS, *LOSSES], ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule that is broken is noticed, with the seed that shows it."""
    bug(monkeypatch)
    with pytest.raises(GuaranteeError) as found:
        simulate(seeds=range(ENOUGH))
    assert f"seed {found.value.finding.seed}: " in str(found.value)


def test_a_seed_is_the_same_world_every_time() -> None:
    """To the last line, also in another process with other hashes."""
    scenario = general()
    hashes = []
    for seed in (7, 8, 7, 8):
        world = World(seed, scenario)
        world.run()
        hashes.append(world.trace.hash)
    assert hashes[:2] == hashes[2:]
    assert hashes[0] != hashes[1]
    call = [sys.executable, "-m", "headway.testing.simulate", "--seed", "8"]
    told = subprocess.run(
        call, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONHASHSEED": "99"}
    )
    assert f"seed 8, trace {hashes[1]}: all guarantees hold" in told.stdout


def test_worlds_are_eventful() -> None:
    """Processes are killed and started, work fails and is retried, charts change, and instances still end."""
    scenario = general()
    seen = "\n".join(line for seed in range(45) for line in _story(seed, scenario))
    for word in ("is killed", "shuts down", "freezes", "sleeps", "is down", "clock forward", "retry"):
        assert word in seen, word
    for word in ("StoreUnavailableError", "VersionConflictError", "refused", "accepts order.complete"):
        assert word in seen, word
    for word in (
        "clock back",
        "has the new version",
        "(chart.upgrade)",
        "(chart.undo)",
        "undo Errand to 2",
    ):
        assert word in seen, word
    assert "upgrade Errand to 2: ConnectionError" in seen, "an upgrade that was interrupted"
    assert "UnknownInstanceError" in seen, "an instance that was deleted"
    assert re.search(r"repack to \S+: fault refused", seen), (
        "a parent that takes no sum of what its children did"
    )


def _story(seed: int, scenario: Scenario) -> list[str]:
    world = World(seed, scenario)
    world.run()
    assert not world.violations
    return world.trace.lines


def test_a_team_simulates_its_own_lifecycle() -> None:
    """With its forms and timers; days pass in no time."""
    assert simulate(
        Expense, seeds=range(15), context=lambda random: {"what": "x", "receipts": random.randint(0, 3)}
    )


class Quick(Statechart, name="Chore", version=2, upgrades={1: Upgrade(states={"doing": "hurrying"})}):
    """The same under another name, and another time it may take."""

    hurrying = State(initial=True, run=Run("do", lease="2s", heartbeat="500ms"))
    done, failed = Final(), Final()
    finish = hurrying.on_done.to(done)
    fail = hurrying.on_error.to(failed)


class Chore(Statechart):
    """Done by a handler of its own."""

    doing = State(initial=True, run=Run("do", lease="2s", heartbeat="500ms"))
    done, failed = Final(), Final()
    finish = doing.on_done.to(done)
    fail = doing.on_error.to(failed)


def test_a_teams_own_handlers_run() -> None:
    """Also those that are not async; what they do is up to them."""
    handlers, called = Handlers(), []

    @handlers
    def do(work: Work) -> str:
        called.append(work.instance)
        return "well"

    assert simulate(Chore, seeds=range(5), handlers=handlers) == 5
    assert called


def test_a_teams_new_version_is_deployed_in_the_middle() -> None:
    """Versions that are given together follow each other while instances live."""
    scenario = Scenario([Quick, Chore])
    assert [chart.version for chart in scenario.first] == [1]
    assert scenario.newest == {"Chore": 2}
    assert "(chart.upgrade) → hurrying" in "\n".join(
        line for seed in range(30) for line in _story(seed, scenario)
    )


def test_the_command_tells_what_it_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failing seed is printed with its story, and how to see it again."""
    assert main(["--seeds", "2", "examples.expenses.chart:Expense"]) == 0
    assert "2 worlds of Expense" in capsys.readouterr().out
    next(bug for bug in BUGS if bug.__name__ == "timers_stay")(monkeypatch)
    assert main(["--seeds", "20"]) == 1
    told = capsys.readouterr().out
    assert "VIOLATION" in told
    assert "python -m headway.testing.simulate --seed" in told


@pytest.mark.parametrize("spelled", ["nowhere:Expense", "examples.expenses.chart:Nobody", "Expense", ":"])
def test_a_chart_that_is_not_there_is_named(spelled: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One message and exit code 2, not a traceback."""
    with pytest.raises(SystemExit) as ended:
        main(["--seeds", "2", spelled])
    assert ended.value.code == 2
    assert f"there is no chart {spelled}" in capsys.readouterr().err


def test_a_simulation_leaves_the_log_as_it_was() -> None:
    """Nothing of it is heard, and what comes after is."""
    log = logging.getLogger("headway")
    before = (log.level, log.propagate, [*log.handlers])
    simulate(seeds=range(1))
    assert (log.level, log.propagate, [*log.handlers]) == before


@pytest.fixture
def loop() -> Iterator[Loop]:
    """A loop of its own time."""
    loop = new_loop(1)
    yield loop
    loop.close()


def test_time_passes_only_when_nothing_else_can_happen(loop: Loop) -> None:
    """A week takes no time, and things happen at their time."""

    async def week() -> list[float]:
        async def later(seconds: float) -> float:
            await asyncio.sleep(seconds)
            return round(loop.time())

        return await asyncio.gather(*map(later, (604_800, 5, 60)))

    assert loop.run(week()) == [604_800, 5, 60]


def test_a_process_keeps_its_order_and_others_come_between(loop: Loop) -> None:
    """What a process has put in its queue runs in that order; who goes next is not said."""
    seen: list[tuple[str, int]] = []

    async def both() -> None:
        for name in "ab":
            for number in range(20):
                loop.call_soon(seen.append, (name, number), context=context_of(name))
        await asyncio.sleep(1)

    loop.run(both())
    for name in "ab":
        assert [number for who, number in seen if who == name] == [*range(20)]
    assert seen != sorted(seen)


def test_a_process_that_ends_does_nothing_more(loop: Loop) -> None:
    """Not even what it would do at the end."""
    seen: list[str] = []

    async def life() -> None:
        try:
            await asyncio.sleep(1)
        finally:
            seen.append("ended")

    async def world() -> None:
        _ = loop.create_task(life(), context=context_of("p"))
        await asyncio.sleep(0.5)
        loop.end("p")
        await asyncio.sleep(5)
        assert not seen

    loop.run(world())


def test_a_frozen_process_goes_on_later_and_a_suspended_one_does_not_know(loop: Loop) -> None:
    """By the clock of a process that was suspended no time has passed."""
    woke: dict[str, tuple[float, float]] = {}

    async def nap(name: str) -> None:
        await asyncio.sleep(1)
        woke[name] = (int(loop.now), int(loop.time()))

    async def world() -> None:
        for name in ("frozen", "suspended"):
            _ = loop.create_task(nap(name), context=context_of(name))
        await asyncio.sleep(0.5)
        loop.freeze("frozen")
        loop.freeze("suspended")
        await asyncio.sleep(10)
        loop.thaw("frozen")
        loop.thaw("suspended", lag=10)
        await asyncio.sleep(1)

    loop.run(world())
    assert woke == {"frozen": (10, 10), "suspended": (10, 0)}


def test_a_standstill_is_said(loop: Loop) -> None:
    """Who waits for what nobody will do does not wait for ever."""
    with pytest.raises(StandstillError):
        loop.run(asyncio.Event().wait())
