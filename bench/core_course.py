"""The courses of the core suite: what every system is sent, and where it must then be."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.harness import WrongResult

# The guard of every chart says yes below this: it is evaluated, and it never stops a run.
LIMIT = 1_000_000_000_000


class Machine(Protocol):
    """A chart built in one system, in its initial state, with a counter at 0."""

    def run(self, events: Sequence[str], cycles: int) -> None:
        """Send the events in order, that many times over."""

    def leafs(self) -> frozenset[str]:
        """The names of the active atomic states."""

    def count(self) -> int:
        """The counter that the chart's action adds 1 to."""


@dataclass(frozen=True)
class Course:
    """One cycle of events, the atomic states active after each, and what the counter gains.

    The last of the path is the initial configuration, so that a cycle can follow a cycle.
    """

    events: Sequence[str]
    path: Sequence[frozenset[str]]
    gain: int = 1


class Lap:
    """A machine on a course, as a subject of the harness.

    Building it walks the course once, event by event, and raises WrongResult where the machine
    strays: whoever is measured has the same chart. Each round is then checked by its end.
    """

    def __init__(self, machine: Machine, course: Course) -> None:
        self._machine = machine
        self._course = course
        self._cycles = 1
        for event, expected in zip(course.events, course.path, strict=True):
            machine.run((event,), 1)
            _same(f"states after {event!r}", machine.leafs(), expected)
        self.verify()

    def run(self, cycles: int) -> None:
        """Go round the course that many times."""
        self._cycles += cycles
        self._machine.run(self._course.events, cycles)

    def verify(self) -> None:
        """Raise WrongResult unless the machine is at its start and has counted every cycle."""
        _same("states after whole cycles", self._machine.leafs(), self._course.path[-1])
        _same("counter", self._machine.count(), self._cycles * self._course.gain)


def ring(size: int) -> Course:
    """The course of a flat ring of states s0, s1, ... that each `go` moves one on."""
    path = [frozenset({f"s{number}"}) for number in range(size)]
    return Course(events=("go",) * size, path=(*path[1:], path[0]))


# Three levels: work(a(a1, a2), b(b1, b2)) and away(c(c1)). `up` is handled by the parent of the
# active leaf, `leave` by its grandparent; `cross` has the guard, `back` the action.
NESTED = Course(
    events=("next", "cross", "next", "up", "leave", "back"),
    path=tuple(frozenset({leaf}) for leaf in ("a2", "b1", "b2", "a1", "c1", "a1")),
)

# both(regions(left(l1, l2), right(r1, r2)), deep history) and out. `leave` is handled by `both`,
# `back` enters the history; `flop` from r1 has the guard, `leave` the action. (Not `back`: there
# python-statemachine 3.2 runs the action of a transition to a history twice. The history stands
# in a compound around the regions because sismic allows it there only.)
PARALLEL = Course(
    events=("flip", "flop", "leave", "back", "flip", "flop"),
    path=(
        frozenset({"l2", "r1"}),
        frozenset({"l2", "r2"}),
        frozenset({"out"}),
        frozenset({"l2", "r2"}),
        frozenset({"l1", "r2"}),
        frozenset({"l1", "r1"}),
    ),
)


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise WrongResult(f"{what}: {found}, expected {expected}")
