"""Measure several subjects side by side in one run, so that noise hits all of them alike.

The rounds of a group are interleaved: every subject gets one round, then every subject gets the
next, each time in a rotated order. The rate of a subject is the median of its rounds.

The garbage collector runs between rounds and stays on, with its default thresholds, inside them:
what a system allocates is part of its price.
"""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Protocol, runtime_checkable


class Unavailable(Exception):  # noqa: N818 - it reports an absence, not a fault
    """A subject cannot be built here, and the message says why; the run goes on without it."""


class WrongResult(Exception):  # noqa: N818 - it names what was found, as the report prints it
    """A subject did not end where it had to, so its speed means nothing."""


class Subject(Protocol):
    """One system, ready to run one case any number of times."""

    def run(self, cycles: int) -> float | None:
        """Do the work of that many cycles; this call alone is timed.

        One that must prepare its work first, or whose work is done elsewhere, has a clock of its own and
        answers with seconds.
        """

    def verify(self) -> None:
        """Raise WrongResult unless all cycles so far had their full effect."""


@runtime_checkable
class Reporting(Protocol):
    """A subject that has found more than its rate."""

    def report(self) -> Sequence["Row"]:
        """Further rows, once all rounds are done."""


@dataclass(frozen=True)
class Entrant:
    """A system entered for a case; `per_cycle` is how many units one cycle is worth.

    One with `cycles` always does that many, without a warm-up; one with `rounds` has no more than those.
    """

    case: str
    system: str
    build: Callable[[], Subject]
    per_cycle: int = 1
    unit: str = "events/s"
    cycles: int | None = None
    rounds: int | None = None


@dataclass(frozen=True)
class Ratio:
    """The rate of one row over the rate of another, with the least or the most that is wanted, if any.

    With `over` None it is the rate itself.
    """

    name: str
    of: tuple[str, str]
    over: tuple[str, str] | None
    target: float | None = None
    most: float | None = None


@dataclass(frozen=True)
class Plan:
    """How long to measure: rounds per subject, and the least duration of a round in seconds."""

    rounds: int = 7
    seconds: float = 0.25
    quick: bool = False


QUICK = Plan(rounds=1, seconds=0.002, quick=True)


@dataclass(frozen=True)
class Suite:
    """Groups of entrants, each group interleaved as a whole, and the ratios drawn from them.

    `plan` is how long it is measured unless someone asks for more or less, `close` ends what its subjects
    have started.
    """

    name: str
    title: str
    groups: Sequence[Sequence[Entrant]]
    ratios: Sequence[Ratio]
    notes: Sequence[str] = ()
    plan: Plan = Plan()
    close: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Row:
    """The measured rate of one system on one case; `spread` is (max - min) / median."""

    case: str
    system: str
    rate: float
    unit: str
    spread: float


@dataclass
class Outcome:
    """What a run of a suite found: rows in order of entry, ratios, and who could not take part."""

    rows: list[Row] = field(default_factory=list)
    ratios: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)


@dataclass
class _Lane:
    entrant: Entrant
    subject: Subject
    rounds: int
    cycles: int = 1
    rates: list[float] = field(default_factory=list)

    def time_round(self) -> float:
        gc.collect()
        with _named(self.entrant):
            begin = perf_counter()
            own = self.subject.run(self.cycles)
            elapsed = perf_counter() - begin
            self.subject.verify()
        return elapsed if own is None else own

    def warm_up(self, seconds: float) -> None:
        """Find how many cycles fill a round; on the way caches and lazy set-up get warm."""
        if self.entrant.cycles is not None:
            self.cycles = self.entrant.cycles
            return
        elapsed = self.time_round()
        while elapsed < seconds:
            wanted = seconds / max(elapsed, 1e-6) * 1.1
            self.cycles = int(self.cycles * min(10.0, wanted)) + 1
            elapsed = self.time_round()

    def measure(self) -> None:
        elapsed = self.time_round()
        self.rates.append(self.cycles * self.entrant.per_cycle / elapsed)

    def row(self) -> Row:
        rate = median(self.rates)
        spread = (max(self.rates) - min(self.rates)) / rate
        return Row(self.entrant.case, self.entrant.system, rate, self.entrant.unit, spread)


def rounds_in(suite: Suite, plan: Plan) -> int:
    """How often `measure` will report progress: each subject's warm-up and rounds."""
    return sum(_rounds(entrant, plan) + 1 for group in suite.groups for entrant in group)


def measure(suite: Suite, plan: Plan, progress: Callable[[str, int], None]) -> Outcome:
    """Run a suite; `progress` hears what was just done and how many rounds that was.

    Raises WrongResult when a subject fails its case.
    """
    outcome = Outcome()
    try:
        for group in suite.groups:
            lanes = list(_lanes(group, plan, outcome, progress))
            for number in range(plan.rounds):
                for lane in _rotated([lane for lane in lanes if number < lane.rounds], number):
                    lane.measure()
                    progress(f"{lane.entrant.case}: {lane.entrant.system}", 1)
            for lane in lanes:
                outcome.rows.append(lane.row())
                outcome.rows.extend(lane.subject.report() if isinstance(lane.subject, Reporting) else ())
    finally:
        suite.close()
    outcome.ratios = ratios(suite.ratios, {(row.case, row.system): row.rate for row in outcome.rows})
    return outcome


def ratios(wanted: Sequence[Ratio], rates: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """The ratios whose rows were measured."""
    return {
        ratio.name: rates[ratio.of] / (1.0 if ratio.over is None else rates[ratio.over])
        for ratio in wanted
        if ratio.of in rates and (ratio.over is None or ratio.over in rates)
    }


def _rounds(entrant: Entrant, plan: Plan) -> int:
    return plan.rounds if entrant.rounds is None else min(entrant.rounds, plan.rounds)


def _lanes(
    group: Sequence[Entrant], plan: Plan, outcome: Outcome, progress: Callable[[str, int], None]
) -> Iterator[_Lane]:
    for entrant in group:
        try:
            with _named(entrant):
                lane = _Lane(entrant, entrant.build(), _rounds(entrant, plan))
        except Unavailable as reason:
            outcome.absent[entrant.system] = str(reason)
            progress(f"{entrant.case}: {entrant.system} left out", _rounds(entrant, plan) + 1)
            continue
        lane.warm_up(plan.seconds)
        progress(f"{entrant.case}: {entrant.system} warm", 1)
        yield lane


@contextmanager
def _named(entrant: Entrant) -> Iterator[None]:
    try:
        yield
    except WrongResult as error:
        raise WrongResult(f"{entrant.system} fails {entrant.case}: {error}") from error


def _rotated(lanes: list[_Lane], by: int) -> list[_Lane]:
    shift = by % len(lanes) if lanes else 0
    return lanes[shift:] + lanes[:shift]
