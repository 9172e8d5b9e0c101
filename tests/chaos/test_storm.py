"""A short storm on each store: real processes, real kills, and an audit that finds planted bugs."""

import asyncio
import io
from pathlib import Path

import pytest
from rich.console import Console

from chaos import disk
from chaos.__main__ import main, show
from chaos.places import Place
from chaos.storm import OF_THE_DISK, Plan, Result, Storm
from tests.store.postgres_server import PostgresServer

pytestmark = pytest.mark.mission("ENG-3", "ENG-4", "ENG-5", "ENG-6", "ENG-9", "ENG-10", "ENG-12")

SEED = 7
MOST_STORMS = 4
LIVES = (("keeper", "keeper"), ("worker-1", "worker"), ("worker-2", "worker"), ("sender-1", "sender"))
DOORS = (("client-1", "client"), ("client-2", "client"))


def storm(place: Place, folder: Path, plan: Plan) -> Result:
    """One storm on a database of its own."""
    return asyncio.run(Storm(place, folder, plan).run())


def sqlite(folder: Path) -> Place:
    """A file."""
    return Place(f"sqlite:///{folder}/headway.db")


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_nothing_is_lost_and_nothing_doubled_whatever_is_killed(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each act comes once; then every life has ended, and what was answered is in its history once."""
    place = sqlite(tmp_path)
    if store == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        place = Place(server.new_database(), server)
    plan = Plan(seconds=0, seed=SEED, every_act_once=True, calm=0.15, crew=(*LIVES, *DOORS))
    result = storm(place, tmp_path, plan)
    assert not result.problems
    assert result.counts["instances ended"]
    assert result.counts["pushes at doors"]
    assert result.counts["never answered"] == 0
    assert min(result.acts.values()) == 1
    if store == "sqlite" and not result.left_out:
        assert all(result.counts[f"times that a {call} failed"] for call in ("read", "write", "sync"))


FOUND = {
    "answers_without_a_commit": "was acknowledged at",
    "requests_are_not_remembered": "got different answers",
    "no_fencing": "its outcome was taken",
    "the_cursor_moves_first": "and the relay is past it",
    "reads_are_stale": "is not linearizable",
    "versions_are_not_compared": "is not linearizable",
    "sums_have_no_errors": "errors, and its children have",
    "disks_never_fail": "and no write failed",
}
"""What the audit says of each bug."""


@pytest.mark.parametrize(
    ("bugs", "crew", "acts"),
    [
        (("answers_without_a_commit",), LIVES, ("kill a sender",)),
        (
            ("requests_are_not_remembered", "no_fencing", "the_cursor_moves_first"),
            LIVES,
            ("kill a sender", "freeze a worker", "kill the keeper"),
        ),
        (("reads_are_stale",), DOORS, ("kill a client",)),
        (("versions_are_not_compared",), DOORS, ("kill a client",)),
        (("sums_have_no_errors", "disks_never_fail"), LIVES, ("kill a worker", "fill the disk")),
    ],
    ids=lambda given: given[0] if isinstance(given[0], str) else "",
)
def test_planted_bugs_are_found(
    bugs: tuple[str, ...], crew: tuple[tuple[str, str], ...], acts: tuple[str, ...], tmp_path: Path
) -> None:
    """The audit says what is wrong when processes break their promises, within a few storms."""
    command, missing = ("tests.chaos.bugged", ",".join(bugs)), {*bugs}
    for seed in range(1, MOST_STORMS + 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        plan = Plan(1, every_act_once=True, seed=seed, acts=acts, crew=crew, command=command, patience=2)
        problems = "\n".join(storm(sqlite(folder), folder, plan).problems)
        missing = {bug for bug in missing if FOUND[bug] not in problems}
        if not missing:
            return
    raise AssertionError(missing)


def test_acts_that_would_do_nothing_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where SQLite lets nobody fail its writes, no disk is spoiled, and the report says so."""
    monkeypatch.setattr(disk, "can_fail", lambda: False)
    run = Storm(sqlite(tmp_path), tmp_path, Plan())
    assert not {*OF_THE_DISK} & {*run._possible()}
    printed = io.StringIO()
    show(run._result, Console(file=printed, width=120))
    assert "left out: fill the disk" in printed.getvalue()


def test_a_broken_guarantee_is_shown_with_the_way_to_it() -> None:
    """The report names what does not hold, and the command that does the same acts again."""
    printed = io.StringIO()
    result = Result(Plan(seconds=30, seed=5), "sqlite", problems=["a/1 was acknowledged at 3, and is lost"])
    show(result, Console(file=printed, width=120))
    assert "✗ a/1 was acknowledged at 3, and is lost" in printed.getvalue()
    assert "python -m chaos --store sqlite --seed 5 --minutes 0.5" in printed.getvalue()


@pytest.mark.parametrize("arguments", [("--minutes", "0"), ("--store", "oracle"), ("--seed", "x")])
def test_what_cannot_be_run_is_refused(arguments: tuple[str, str]) -> None:
    """A command line that means nothing ends before anything is started."""
    with pytest.raises(SystemExit):
        main(arguments)
