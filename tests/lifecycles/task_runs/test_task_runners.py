"""What a team can get wrong when it writes a runner is told at once, in words."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from headway.errors import InputError
from headway.lifecycles.task_runs import lifecycle
from headway.lifecycles.task_runs.artifacts import ArtifactTooLargeError, checked_artifacts
from headway.lifecycles.task_runs.graph import graph_problem
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
