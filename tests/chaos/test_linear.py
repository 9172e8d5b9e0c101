"""The linearizability check: right histories pass, wrong ones fail where they are wrong."""

from collections.abc import Sequence
from math import inf
from random import Random
from typing import Any

import pytest

from chaos.linear import UNKNOWN, Operation, problem
from chaos.model import Push, door

pytestmark = pytest.mark.mission("ENG-4")


def operation(
    name: str, times: tuple[float, float], event: str, answer: Any, *, expects: int | None = None
) -> Operation:
    """An operation on a door."""
    return Operation(name, *times, Push(event, name, expects), answer)


def at(seq: int, state: str) -> dict[str, Any]:
    """The answer to a push that went through."""
    return {"seq": seq, "state": state}


def seen(seq: int, state: str, mark: str | None = None) -> dict[str, Any]:
    """The answer to a look."""
    return {"seq": seq, "state": state, "mark": mark}


CLOSE = operation("a", (0, 1), "close", at(2, "shut"))


@pytest.mark.parametrize(
    "history",
    [
        [CLOSE, operation("b", (2, 3), "look", seen(2, "shut", "a"))],
        [operation("a", (0, 5), "close", at(2, "shut")), operation("b", (1, 2), "look", seen(1, "ajar"))],
        [operation("a", (0, 5), "close", at(2, "shut")), operation("b", (1, 2), "lock", at(3, "locked"))],
        [CLOSE, operation("b", (0, 1), "close", {"refused": "not_allowed"})],
        [CLOSE, operation("b", (0, 3), "close", {"conflict": True, "seq": 2}, expects=1)],
        [operation("a", (0, inf), "close", UNKNOWN), operation("b", (9, 10), "look", seen(1, "ajar"))],
        [operation("a", (0, inf), "close", UNKNOWN), operation("b", (9, 10), "look", seen(2, "shut", "a"))],
        [
            operation("a", (0, inf), "lock", UNKNOWN),
            CLOSE,
            operation("b", (2, 3), "look", seen(2, "shut", "a")),
        ],
    ],
    ids=[
        "after",
        "before",
        "within",
        "refused",
        "conflict",
        "did not happen",
        "did happen",
        "would be refused",
    ],
)
def test_what_could_have_happened_in_a_row_is_linearizable(history: Sequence[Operation]) -> None:
    """Calls that overlap may take effect in any order, and one without an answer at any time or never."""
    told = [each if each.answer != {"refused": "not_allowed"} else _refused(each) for each in history]
    assert problem(told, door()) is None


def _refused(each: Operation) -> Operation:
    """The refusal that a door really gives."""
    closed = door().apply(door().first, Push("close", "a"))[1]
    return each._replace(answer=door().apply(closed, each.asked)[0])


@pytest.mark.parametrize(
    ("history", "stuck"),
    [
        ([CLOSE, operation("b", (2, 3), "look", seen(1, "ajar"))], {"b"}),
        ([CLOSE, operation("b", (0, 2), "close", at(2, "shut"))], {"b"}),
        ([CLOSE, operation("b", (2, 3), "lock", at(3, "locked"), expects=1)], {"b"}),
        ([CLOSE, operation("b", (2, 3), "lock", at(4, "locked"))], {"b"}),
        (
            [
                operation("a", (0, inf), "close", UNKNOWN),
                operation("b", (2, 3), "look", seen(2, "shut", "a")),
                operation("c", (4, 5), "look", seen(1, "ajar")),
            ],
            {"c"},
        ),
    ],
    ids=["stale read", "lost update", "version not compared", "too many steps", "undone"],
)
def test_what_could_not_have_happened_is_shown_where_it_fails(
    history: Sequence[Operation], stuck: set[str]
) -> None:
    """The window names what cannot have come next, and nothing that came later hides it."""
    late = operation("z", (90, 91), "look", seen(9, "shut"))
    window = problem([*history, late], door())
    assert window is not None
    assert {each.name for each, _ in window.stuck} == stuck
    assert "none of these can have come next" in str(window)


@pytest.mark.parametrize("seed", range(8))
def test_long_histories_of_many_hands_are_judged(seed: int) -> None:
    """What was made in a row passes when its calls are stretched, and fails with one answer changed."""
    random, model = Random(seed), door()
    state, history = model.first, []
    for number in range(80):
        event = random.choice(("look", "close", "open_", "lock", "unlock"))
        push = Push(event, f"{number}", state.seq if random.random() < 0.3 else None)
        answer, state = model.apply(state, push)
        times = (number - random.uniform(0, 4), number + random.uniform(0, 4))
        lost = random.random() < 0.05
        told = (inf, UNKNOWN) if lost else (times[1], answer)
        history.append(Operation(f"{number}", times[0], told[0], push, told[1]))
    assert problem(history, model) is None
    place = random.choice(
        [n for n, each in enumerate(history) if each.answer is not UNKNOWN and "seq" in each.answer]
    )
    wrong = history[place]
    history[place] = wrong._replace(answer={**wrong.answer, "seq": wrong.answer["seq"] + 60})
    assert problem(history, model) is not None
