"""`step` and the naive interpreter agree, on thousands of random charts and events."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random

import pytest
from hypothesis import given, settings

from headway import Event, Refusal, Snapshot, Step, start, step
from headway.codec import decode, encode
from headway.statechart.effects import WriteLog
from headway.statechart.snapshot import timer_fired
from tests.fuzzing import seeds
from tests.statechart.naive import Naive
from tests.statechart.random_charts import GUARDS, Case, cases, chart_of_model, random_case

pytestmark = pytest.mark.mission("ENG-1")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BATCHES, IN_A_BATCH = 12, 250


class Pair:
    """One chart in both interpreters; each thing that happens to both is compared."""

    def __init__(self, case: Case) -> None:
        whole, context, self.events = case
        self.chart = chart_of_model(whole)
        self.naive = Naive(whole, GUARDS, context, NOW)
        self.now = NOW
        begun = start(self.chart, now=NOW, context=context)
        assert isinstance(begun, Step), begun
        self.last: Step | Refusal = begun
        self.snapshot = begun.snapshot
        self.compare(begun)

    def run(self) -> Iterator[tuple[Snapshot, Event, datetime, Step | Refusal]]:
        """Everything that happens, as it happened: the snapshot before, the event, the time, the answer."""
        for each in self.events:
            if isinstance(each, str):
                yield self.send(each)
                continue
            for _ in range(each):
                if self.naive.next_due() is not None:
                    yield self.fire()

    def send(self, name: str) -> tuple[Snapshot, Event, datetime, Step | Refusal]:
        """An event from outside: taken by both, or refused and ignored."""
        before, event = self.snapshot, Event(name)
        answer = step(self.chart, before, event, self.now)
        moved = self.naive.send(name)
        assert isinstance(answer, Step) == moved, answer
        if isinstance(answer, Step):
            self.snapshot = answer.snapshot
            self.compare(answer)
        return before, event, self.now, answer

    def fire(self) -> tuple[Snapshot, Event, datetime, Step | Refusal]:
        """The next timer: the same in both."""
        before, due = self.snapshot, self.naive.next_due()
        assert due is not None
        timer = min(before.timers, key=lambda key: before.timers[key].due)
        assert (before.timers[timer].event, before.timers[timer].due) == (due.event, due.due)
        self.now, event = max(self.now, due.due), timer_fired(timer)
        answer = step(self.chart, before, event, self.now)
        self.naive.fire(due)
        assert isinstance(answer, Step), answer
        self.snapshot = answer.snapshot
        self.compare(answer)
        return before, event, self.now, answer

    def compare(self, answer: Step) -> None:
        """Where it stands, what it did in which order, and all it remembers."""
        naive, snapshot = self.naive, answer.snapshot
        assert snapshot.states == naive.leaves()
        assert [e.label for e in answer.effects if isinstance(e, WriteLog)] == naive.logged
        moves = [
            (row.transition, row.before, row.after) for row in answer.history if row.before and row.transition
        ]
        assert moves == [(", ".join(move.transitions), move.before, move.after) for move in naive.moves]
        assert snapshot.memory == naive.memory()
        assert snapshot.counters == naive.counters
        assert snapshot.context == naive.context
        assert snapshot.since == naive.since
        assert snapshot.ended == (not naive.running)
        timers = [(timer.due, timer.event, timer.state) for timer in snapshot.timers.values()]
        assert timers == [(each.due, each.event, each.state) for each in naive.pending]


@pytest.mark.fuzz
@pytest.mark.parametrize("batch", range(BATCHES))
def test_both_interpreters_agree_on_many_charts(batch: int) -> None:
    """States, order of entry, exit and actions, history, counters and timers are those SCXML prescribes."""
    for seed in seeds(BATCHES * IN_A_BATCH)[batch * IN_A_BATCH : (batch + 1) * IN_A_BATCH]:
        try:
            for _ in Pair(random_case(Random(seed))).run():
                pass
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


@settings(max_examples=150, deadline=None)
@given(cases)
def test_both_interpreters_agree_on_charts_that_shrink(case: Case) -> None:
    """The same, with charts that become as small as they can when the interpreters differ."""
    for _ in Pair(case).run():
        pass


@pytest.mark.fuzz
def test_a_step_is_deterministic_pure_and_survives_storage() -> None:
    """Repeated, or on a stored snapshot, a step gives the same bytes; what it was given stays as it was."""
    for seed in seeds(IN_A_BATCH):
        pair = Pair(random_case(Random(seed)))
        for before, event, now, answer in pair.run():
            stored = encode(before)
            assert encode(step(pair.chart, before, event, now)) == encode(answer)
            assert encode(before) == stored
            loaded = decode(Snapshot, stored)
            assert loaded == before
            assert step(pair.chart, loaded, event, now) == answer


def test_the_random_charts_exercise_what_they_should() -> None:
    """Among the random cases are enough that end, refuse, remember, move regions together and fire timers."""
    seen: Counter[str] = Counter()
    for seed in range(IN_A_BATCH):
        for _, event, _, answer in Pair(random_case(Random(seed))).run():
            seen["timer"] += event.name == "timer"
            if isinstance(answer, Refusal):
                seen[answer.code] += 1
                continue
            seen["ended"] += answer.snapshot.ended
            seen["memory"] += bool(answer.snapshot.memory)
            seen["regions"] += len(answer.snapshot.states) > 1
            seen["together"] += any("," in row.transition for row in answer.history)
            seen["microsteps"] += len(answer.history) > 1
    wanted = (
        "timer",
        "illegal",
        "unknown_event",
        "guard",
        "ended",
        "memory",
        "regions",
        "together",
        "microsteps",
    )
    assert {name: seen[name] for name in wanted if seen[name] < 10} == {}
