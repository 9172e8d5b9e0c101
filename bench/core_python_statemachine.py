"""The charts of the core suite in python-statemachine."""

from collections.abc import Sequence
from typing import Any

from statemachine import HistoryState, State, StateChart

from bench.core_course import LIMIT

# Its nested state classes turn into State objects in a metaclass, which no type checker follows: hence
# Any for these three, here alone, and leave to inherit from it.
# mypy: allow-subclassing-any
_State: Any = State
_HistoryState: Any = HistoryState
_StateChart: Any = StateChart


class _Counting(_StateChart):
    n = 0

    def below_limit(self) -> bool:
        return self.n < LIMIT

    def bump(self) -> None:
        self.n += 1


class _Ring(_Counting):
    s0 = _State(initial=True)
    s1, s2, s3, s4, s5 = _State(), _State(), _State(), _State(), _State()
    go = s0.to(s1, cond="below_limit") | s1.to(s2, on="bump") | s2.to(s3) | s3.to(s4) | s4.to(s5) | s5.to(s0)


class _Nested(_Counting):
    class work(_State.Compound):  # noqa: N801 - the class name is the name of the state
        class a(_State.Compound):  # noqa: N801 - as above
            a1, a2 = _State(initial=True), _State()

        class b(_State.Compound):  # noqa: N801 - as above
            b1, b2 = _State(initial=True), _State()

    class away(_State.Compound):  # noqa: N801 - as above
        class c(_State.Compound):  # noqa: N801 - as above
            c1 = _State(initial=True)

    next = work.a.a1.to(work.a.a2) | work.b.b1.to(work.b.b2)
    cross = work.a.a2.to(work.b.b1, cond="below_limit")
    up = work.b.to(work.a)
    leave = work.to(away)
    back = away.c.c1.to(work.a.a1, on="bump")


class _Parallel(_Counting):
    class both(_State.Compound):  # noqa: N801 - the class name is the name of the state
        class regions(_State.Parallel):  # noqa: N801 - as above
            class left(_State.Compound):  # noqa: N801 - as above
                l1, l2 = _State(initial=True), _State()

            class right(_State.Compound):  # noqa: N801 - as above
                r1, r2 = _State(initial=True), _State()

        h = _HistoryState(type="deep")

    out = _State()

    flip = both.regions.left.l1.to(both.regions.left.l2) | both.regions.left.l2.to(both.regions.left.l1)
    flop = both.regions.right.r1.to(both.regions.right.r2, cond="below_limit") | both.regions.right.r2.to(
        both.regions.right.r1
    )
    leave = both.to(out, on="bump")
    back = out.to(both.h)


class PythonStateMachine:
    """A chart driven through its events, as in `chart.go()`: the fastest of its ways."""

    def __init__(self, chart: Any) -> None:
        self._chart = chart

    def run(self, events: Sequence[str], cycles: int) -> None:
        """Send the events in order, that many times over."""
        triggers = [getattr(self._chart, event) for event in events]
        for _ in range(cycles):
            for trigger in triggers:
                trigger()

    def leafs(self) -> frozenset[str]:
        """The ids of the active states that have no children."""
        return frozenset(state.id for state in self._chart.configuration if not state.states)

    def count(self) -> int:
        """The counter of the chart."""
        return int(self._chart.n)


def flat() -> PythonStateMachine:
    """The ring of six."""
    return PythonStateMachine(_Ring())


def nested() -> PythonStateMachine:
    """Three levels."""
    return PythonStateMachine(_Nested())


def parallel() -> PythonStateMachine:
    """Two regions with a deep history."""
    return PythonStateMachine(_Parallel())
