"""What a team can get wrong when it writes a runner is told at once, in words."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from headway.errors import InputError
from headway.lifecycles.task_runs import lifecycle
from headway.lifecycles.task_runs.artifacts import (
    ArtifactTooLargeError,
    Inheritance,
    Piece,
    checked_artifacts,
    joined,
)
from headway.lifecycles.task_runs.rules import graph_problem
from headway.lifecycles.task_runs.runners import Process, Runner, Runners, TransientError
from tests.lifecycles.task_runs import team

pytestmark = pytest.mark.mission("TSK-WF")


class Endless(Runner):
    """May take longer than anybody waits."""

    timeout_seconds = 86_401


def twice() -> None:
    """Two runners of one name."""
    runners = Runners()
    runners.add("a", Runner)
    runners.add("a", Runner)


@pytest.mark.parametrize(
    ("mistake", "says"),
    [
        (twice, "two runners are called a"),
        (lambda: Runners().add("", Runner), "a word as its name"),
        (lambda: Runners().add("a", Runner()), "a subclass of Runner"),
        (lambda: Runners().add("a", Endless), "at most 86,400 s, not 86401"),
        (lambda: Runners()["a"], "there is no runner 'a'; there are: none"),
        (lambda: Process("p", timeout_seconds=0), "more than 0"),
        (lambda: Process("p", max_retries=-1), "0 to 1,000 retries"),
        (lambda: checked_artifacts([float("nan")]), "finite"),
    ],
)
def test_a_mistake_is_told_in_words(mistake: Callable[[], object], says: str) -> None:
    """Names, classes and limits that cannot be are InputErrors."""
    with pytest.raises(InputError, match=says):
        mistake()


def test_a_transient_error_has_a_code_that_is_retried() -> None:
    """Any other code would fail the process for good, whatever the class is called."""
    assert TransientError("busy", "overloaded").code == "overloaded"
    with pytest.raises(ValueError, match="network_error, rate_limited, overloaded, lost"):
        TransientError("busy", "crashed")


def test_artifacts_have_a_limit_together() -> None:
    """Five of the largest fit; one byte more is too much."""
    largest = "x" * 99_998
    assert len(checked_artifacts([largest] * 5)) == 5
    with pytest.raises(ArtifactTooLargeError, match="500,000 bytes together, not 500,001"):
        checked_artifacts([*[largest] * 5, 1])


GIVEN = ["a", {"b": 1}, "a", [3], None]


@pytest.mark.parametrize(
    ("artifacts", "own", "pieces"),
    [
        (GIVEN, [], [(0, 0, 5)]),
        ([], [], []),
        (["x", "y"], ["x", "y"], []),
        (["x", *GIVEN, "y"], ["x", "y"], [(1, 0, 5)]),
        ([[3], "x", "a", {"b": 1}, {"b": 1}], ["x"], [(0, 3, 1), (2, 0, 2), (4, 1, 1)]),
        (["a", "a", "a"], [], [(0, 0, 1), (1, 0, 1), (2, 0, 1)]),
    ],
)
def test_what_a_process_inherits_is_taken_apart_and_joined(
    artifacts: list[Any], own: list[Any], pieces: list[Piece]
) -> None:
    """What comes from the run goes by number, the rest by value, and the process gets all in its order."""
    assert Inheritance(GIVEN).split(artifacts) == (own, pieces)
    assert joined(own, pieces, GIVEN) == artifacts


def test_what_is_inherited_is_not_measured_again() -> None:
    """More than a task may be given of its own is fine; what all processes copy has a limit of its own."""
    given = ["x" * 99_998 + str(number) for number in range(9)]
    inheritance = Inheritance(given)
    assert inheritance.split([*given, "own"]) == (["own"], [(0, 0, 9)])
    with pytest.raises(ArtifactTooLargeError, match="500,000 bytes together"):
        inheritance.split([*given, *["y" * 99_998] * 6])
    for _ in range(9):
        inheritance.split(given)
    with pytest.raises(ArtifactTooLargeError, match="10,000,000 bytes of what their run was given"):
        inheritance.split(given)


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        ({"a": [], "b": ["a"], "c": ["a", "b"]}, None),
        ({}, "no node"),
        ({"a": ["b"], "b": ["a"]}, "circle"),
        ({"a": ["z"]}, "which is no node"),
    ],
)
def test_a_graph_that_can_never_be_done_says_why(graph: dict[str, list[str]], says: str | None) -> None:
    """One that can be done has no problem."""
    problem = graph_problem(graph)
    assert problem is None if says is None else problem is not None and says in problem


def test_installed_packages_bring_their_runners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of the group name a registry; all of them become one, and anything else is refused."""
    named = {"value": "tests.lifecycles.task_runs.team:runners"}

    def found(group: str) -> EntryPoints:
        return EntryPoints([EntryPoint("team", named["value"], group)])

    monkeypatch.setattr(lifecycle, "entry_points", found)
    assert lifecycle.registered_runners().names == team.runners.names
    named["value"] = "tests.lifecycles.task_runs.team:calls"
    with pytest.raises(InputError, match="team is registered as runners"):
        lifecycle.registered_runners()
