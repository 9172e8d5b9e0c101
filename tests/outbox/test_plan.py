"""The delivery plan as tables: what is tried, queued, given up, retried, paused and written."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from headway.codec import replace
from headway.errors import BusyError, DeliveryError, NotHereError, PermanentError, UnreachableError
from headway.outbox.delivery import Results, Verdict, conclude, judge, judge_all, leave_alone, remember
from headway.outbox.destination import Backoff, DeliveryReport, MessageFilter
from headway.outbox.plan import (
    FAILURES,
    TOO_MANY,
    Backlog,
    Breaker,
    DeliveryPlan,
    DeliveryState,
    Row,
    choose,
    lanes,
    letter_of,
    reads_on,
    ready,
)
from headway.store.queries import LetterPlace, MessagePage
from headway.store.rows import Cursor, LetterRow, MessageRow

pytestmark = pytest.mark.mission("ENG-5")

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TENANT = "acme"
NO = DeliveryError("no answer")
GONE = UnreachableError("not there", after=5)


def message(said: str) -> MessageRow:
    """The message of an instance at a position: `a1`; one that is not wanted ends in `!`."""
    position = int(said[1:].rstrip("!"))
    name = "unwanted" if said.endswith("!") else "said"
    return MessageRow(TENANT, f"{said}:0", said[0], "topic", name, None, NOW, position=position, stamp=1)


def letter(said: str, attempts: int = 0) -> LetterRow:
    """The same as a letter that was tried so often."""
    return replace(letter_of("shop", message(said)), attempts=attempts)


def page(*said: str, complete: bool = True, upto: int = 0) -> MessagePage:
    """A page of messages, which reaches beyond them if told so."""
    rows = [message(each) for each in said]
    return MessagePage(rows, Cursor(1, upto) if upto else rows[-1].cursor, complete)


def state_of(*waiting: str, most: int = 100, pauses: int = 0, failing: str = "") -> DeliveryState:
    """What a relay knows: letters that wait (`a1*` has failed), and what the circuit breaker has counted."""
    state = DeliveryState(
        "shop",
        "node",
        MessageFilter(("topic",), ("said",)),
        Backoff.after("10s", jitter=0),
        most_waiting=most,
    )
    for each in waiting:
        row = message(each.rstrip("*"))
        state.backlog.add((TENANT, row.instance), row.position, int(each.endswith("*")))
    state.breaker = Breaker(frozenset((TENANT, name) for name in failing), pauses)
    return state


def names(rows: Sequence[Row]) -> str:
    """Rows as they are written in these tables."""
    return " ".join(row.id.removesuffix(":0") for row in rows)


def decided(plan: DeliveryPlan) -> tuple[str, str, str, int]:
    """What a plan tries, queues and gives up, and how far it reads."""
    return names(plan.tries), names(plan.queued), names(plan.given_up), plan.cursor.position


# What is tried.


@pytest.mark.parametrize(
    ("waiting", "due", "new", "expected"),
    [
        ([], [], ["a1", "b2"], ("a1 b2", "", "", 2)),
        ([], [], ["a1", "b2!", "c3!"], ("a1", "", "", 3)),
        (["a1*"], [], ["a2", "b3"], ("b3", "a2", "", 3)),
        (["a1*"], ["a1"], ["a2", "b3"], ("a1 b3", "a2", "", 3)),
        ([], ["a1"], ["a2"], ("a1", "a2", "", 2)),  # redriven: it was not known to wait
        (["a2*"], [], ["a2"], ("", "", "", 2)),  # it was a probe, and waits already
        (["a1", "a2"], ["a1", "a2"], ["c3"], ("a1 a2 c3", "", "", 3)),
    ],
)
def test_new_messages_are_tried_unless_their_instance_has_letters(
    waiting: list[str], due: list[str], new: list[str], expected: tuple[str, str, str, int]
) -> None:
    """Those of an instance with letters are queued, once; what is not wanted is passed."""
    read = page(*new)
    plan = choose(state_of(*waiting), [letter(each) for each in due], read, read)
    assert decided(plan) == expected


@pytest.mark.parametrize(
    ("waiting", "new", "others", "expected"),
    [
        ("a1*", ["a3", "b4"], "same", ("b4", "", "a3", 4)),
        ("a1*", ["b3", "a4", "a5"], "same", ("b3", "", "", 3)),  # its end stays in the outbox
        ("a1*", ["a3", "a4"], "later", ("", "", "a3 a4", 4)),
        ("a1*", ["a3", "a4"], "none", ("", "", "", 0)),  # nobody else: all of it stays in the outbox
        ("a1", ["a3", "b4"], "same", ("b4", "a3", "", 4)),  # only slow: it waits
    ],
)
def test_a_full_backlog_takes_no_more_of_failing_instances(
    waiting: str, new: list[str], others: str, expected: tuple[str, str, str, int]
) -> None:
    """Their messages stay in the outbox; in front of somebody else's they are given up."""
    state, read = state_of(waiting, "z2", most=2), page(*new)
    found = {"same": read, "later": page("c9"), "none": None}[others]
    plan = choose(state, [], read, found)
    assert decided(plan) == expected
    assert {(row.dead, row.error) for row in plan.given_up} <= {(True, TOO_MANY)}


def test_messages_of_slow_instances_are_not_passed_when_twice_as_many_wait() -> None:
    """The log waits, with all behind them."""
    read = page("a5", "b6")
    assert decided(choose(state_of("a1", "a2", "a3", "a4", most=2), [], read, read)) == ("", "", "", 0)
    failing = state_of("a1*", "a2", "a3", "a4", most=2)
    assert decided(choose(failing, [], read, read)) == ("b6", "", "a5", 6)


@pytest.mark.parametrize(
    ("due", "pauses", "new", "expected"),
    [
        # A new message of an instance that has not failed, behind what waits.
        ([("a1", 1)], 1, ["a2", "b3", "c4"], ("b3", "a2", "", 3)),
        # A letter that was never tried goes first every second time.
        ([("a1", 1), ("d2", 0)], 1, ["b3"], ("b3", "", "", 3)),
        ([("a1", 1), ("d2", 0)], 2, ["b3"], ("d2", "", "", 0)),
        # Without another choice: the letter with the fewest attempts.
        ([("a1", 3), ("e2", 1)], 1, ["a3"], ("e2", "a3", "", 3)),
        ([], 1, ["a3"], ("", "a3", "", 3)),
        ([], 1, ["b3!"], ("", "", "", 3)),
    ],
)
def test_a_probe_is_one_message_that_is_not_to_blame(
    due: list[tuple[str, int]], pauses: int, new: list[str], expected: tuple[str, str, str, int]
) -> None:
    """One of an instance that has not failed, if there is one; letters and new messages take turns."""
    state, read = state_of("a1*", "d2", pauses=pauses, failing="ae"), page(*new)
    plan = choose(state, [letter(each, attempts) for each, attempts in due], read, read)
    assert decided(plan) == expected
    assert len(plan.tries) <= 1
    assert plan.search_end is None


@pytest.mark.parametrize(("end", "tries", "goes_on"), [(9, "", True), (3, "a1", False), (None, "a1", False)])
def test_a_search_for_a_probe_ends_where_the_log_ended(end: int | None, tries: str, *, goes_on: bool) -> None:
    """What has failed before is tried only when nothing else was found up to there."""
    state, read = state_of("a1*", pauses=1, failing="a"), page("a2", "a3", complete=False)
    state.search_end = None if end is None else Cursor(1, end)
    plan = choose(state, [letter("a1", 1)], read, read)
    assert decided(plan) == (tries, "a2 a3", "", 3)
    assert plan.search_end == (state.search_end if goes_on else None)


@pytest.mark.parametrize(
    ("pauses", "others", "expected"),
    [
        (1, ["a8", "b9"], ("b9", "", "", 0)),
        (2, ["a8", "b9"], ("d2", "", "", 0)),
        (1, None, ("d2", "", "", 0)),
    ],
)
def test_a_probe_with_a_full_backlog_passes_nothing(
    pauses: int, others: list[str] | None, expected: tuple[str, str, str, int]
) -> None:
    """The message is tried where it stands, and nothing is given up on the way to it."""
    state = state_of("a1*", "d2", most=2, pauses=pauses, failing="a")
    found = None if others is None else page(*others)
    plan = choose(state, [letter("a1", 1), letter("d2")], page("a3"), found)
    assert decided(plan) == expected


def test_a_plan_tells_whether_there_may_be_more() -> None:
    """Letters, messages and a cursor that moves are reasons for another turn."""
    state = state_of()
    assert choose(state, [], state.nothing, state.nothing).is_idle
    for due, read in (([letter("a1")], state.nothing), ([], page("a1!")), ([], page("a1", upto=7))):
        assert not choose(state, due, read, read).is_idle
    moved = MessagePage([], Cursor(1, 4), complete=False)
    plan = choose(state, [], moved, moved)
    assert (plan.is_idle, plan.is_empty, plan.has_more) == (False, True, True)


def test_letters_that_were_never_tried_go_before_what_is_new() -> None:
    """While there are as many as can go at once, no more is read; a probe always looks at what is new."""
    due = [letter("a1"), letter("b2"), letter("c3", 1)]
    assert not reads_on(state_of(), due, 2)
    assert reads_on(state_of(), due, 3)
    assert reads_on(state_of(pauses=1), due, 2)


def test_letters_behind_those_that_are_due_go_along_up_to_one_that_has_failed() -> None:
    """It has a due time of its own, and what follows of its instance waits for it."""
    behind = [letter("a1"), letter("b2", 1), letter("a3", 2), letter("b4"), letter("a5"), letter("c6")]
    assert names(ready(behind)) == "a1 c6"


def test_instances_that_have_failed_come_last() -> None:
    """Each instance is a lane, in the order of the log."""
    rows: list[Row] = [letter("a1", 1), letter("b2"), letter("a3"), message("c4"), message("b5")]
    assert [names(lane) for lane in lanes(rows)] == ["b2 b5", "c4", "a1 a3"]


# The circuit breaker, and who waits.


def test_pauses_double_up_to_a_bound_and_begin_anew() -> None:
    """Five seconds, ten, twenty, up to five minutes; after an answer ten more failures are needed."""
    breaker, seconds, now = Breaker(), [], NOW
    for number in range(FAILURES + 40):
        breaker = breaker.at(now).failed((TENANT, f"{number}"), now)
        if breaker.quiet_until is not None:
            seconds.append((breaker.quiet_until - now).total_seconds())
            now = breaker.quiet_until
    assert len(seconds) == 41
    assert seconds[:4] == [5, 10, 20, 40]
    assert max(seconds) == seconds[-1] == 300
    assert (breaker.is_probing, breaker.succeeded().is_probing) == (True, False)
    assert not breaker.at(now).succeeded().failed((TENANT, "x"), now).is_quiet


@pytest.mark.parametrize(
    ("after", "is_quiet"), [(0, True), (59, True), (60, False), (-3_539, True), (-3_541, False)]
)
def test_a_pause_is_over_in_time_also_when_the_clock_is_set_back(after: int, *, is_quiet: bool) -> None:
    """A pause that would be longer than an hour is over."""
    breaker = Breaker().quiet(60, NOW)
    assert breaker.at(NOW + timedelta(seconds=after)).is_quiet == is_quiet


def test_failures_during_a_pause_do_not_count() -> None:
    """Of those that fail at the same time one begins a pause."""
    breaker = Breaker(frozenset((TENANT, f"{number}") for number in range(FAILURES)), 1).quiet(5, NOW)
    assert breaker.failed((TENANT, "x"), NOW) is breaker
    repeated = Breaker()
    for _ in range(3 * FAILURES):
        repeated = repeated.failed((TENANT, "a"), NOW)
    assert not repeated.is_quiet


def test_a_backlog_counts_each_letter_once_and_knows_who_waits() -> None:
    """An instance waits as long as one of its letters does."""
    backlog = Backlog(2)
    key = (TENANT, "a")
    for position in (1, 2, 2):
        backlog.add(key, position, attempts=position == 1)
    assert (backlog.count, backlog.is_full, backlog.has_room, backlog.failed) == (2, True, True, {key})
    backlog.searched = Cursor(1, 9)
    backlog.remove(key, 1)
    backlog.remove(key, 7)
    assert (backlog.count, backlog.is_full, backlog.failed, backlog.waiting) == (1, False, set(), {key: {2}})
    assert backlog.searched == Cursor(1, 9)
    backlog.remove(key, 2)
    assert (backlog.count, backlog.waiting, backlog.searched) == (0, {}, Cursor())


@pytest.mark.parametrize(("found", "searched"), [("ab", 9), ("abc", 9), ("b", 0)])
def test_a_search_begins_anew_when_somebody_waits_no_longer(found: str, searched: int) -> None:
    """The log may hold something of an instance whose letters are gone."""
    backlog = state_of("a1", "b2*").backlog
    backlog.searched = Cursor(1, 9)
    backlog.learn(LetterPlace(TENANT, name, number, 1) for number, name in enumerate(found))
    assert (backlog.count, backlog.searched.position) == (len(found), searched)


# What becomes of messages.


@pytest.mark.parametrize(
    ("row", "error", "expected"),
    [
        (message("a1"), NO, ("retry", 1, 10)),
        (letter("a1"), NO, ("retry", 1, 10)),
        (letter("a1", 1), NO, ("dead", 2, 0)),
        (message("a1"), ValueError("bad\nluck"), ("retry", 1, 10)),
        (message("a1"), DeliveryError("later", after=60), ("retry", 1, 60)),
        (message("a1"), DeliveryError("later", after=1), ("retry", 1, 10)),
        (message("a1"), DeliveryError("later", after=10**9), ("retry", 1, 86_400)),
        (message("a1"), PermanentError("never"), ("dead", 1, 0)),
        (message("a1"), NotHereError("v2", ("Job", 2)), ("not_here", 1, 1)),
        (letter("a1", 4), NotHereError("v2", ("Job", 2)), ("not_here", 4, 10)),
    ],
)
def test_what_becomes_of_a_message(row: Row, error: Exception, expected: tuple[str, int, float]) -> None:
    """It is retried after its wait, or the one that was asked for, until its attempts are used up."""
    verdict = judge(state_of(), row, error, NOW)
    assert verdict.letter is not None
    assert (verdict.kind, verdict.letter.attempts, verdict.pause.total_seconds()) == expected
    assert verdict.letter.dead == (verdict.kind == "dead")
    said = "ValueError: bad luck" if isinstance(error, ValueError) else str(error)
    assert verdict.letter.error == said


@pytest.mark.parametrize(
    ("error", "quiet"),
    [
        (NO, 0),
        (BusyError("slow down"), 0),
        (BusyError("slow down", after=60), 60),
        (BusyError("slow down", after=10**9), 3_600),
        (UnreachableError("gone"), 1),
        (UnreachableError("gone", after=5), 5),
        (UnreachableError("gone", after=10**9), 3_600),
        (PermanentError("never"), 0),
    ],
)
def test_for_how_long_a_destination_is_left_alone(error: Exception, quiet: int) -> None:
    """As long as it asks for, an hour at most; one that is unreachable at least a second."""
    state = state_of()
    judge(state, message("a1"), error, NOW)
    until = state.breaker.quiet_until
    assert (until - NOW).total_seconds() == quiet if until is not None else not quiet


def test_an_unreachable_destination_uses_up_no_attempt_and_keeps_its_first_rest() -> None:
    """Nothing is written about its messages."""
    state = state_of()
    assert judge(state, message("a1"), GONE, NOW) == Verdict("unreachable", paused=5.0)
    later = NOW + timedelta(seconds=1)
    assert leave_alone(state, UnreachableError("gone", after=60), later) == Verdict("unreachable")
    assert state.breaker.quiet_until == NOW + timedelta(seconds=5)


def test_failures_of_many_instances_pause_deliveries_and_an_answer_ends_that() -> None:
    """The one that makes it ten says for how long; a refusal for good is an answer, too."""
    state = state_of(failing="abcdefghi")
    assert judge(state, message("b1"), NO, NOW).paused is None
    assert judge(state, message("x2"), NO, NOW, counts=False).paused is None
    assert judge(state, message("j3"), NO, NOW).paused == 5
    state.breaker = state.breaker.at(NOW + timedelta(seconds=5))
    verdict = judge(state, message("k4"), PermanentError("never"), NOW)
    assert (verdict.recovered, state.breaker) == (True, Breaker())
    assert not judge(state, message("k5"), PermanentError("never"), NOW).recovered


def test_what_fails_when_twice_as_many_wait_is_dead_at_once() -> None:
    """Only what waits already can wait on."""
    state = state_of("a1", "a2", "a3", "a4", most=2)
    assert judge(state, message("b5"), NO, NOW).kind == "dead"
    assert judge(state, letter("a1"), NO, NOW).kind == "retry"


def test_another_node_is_asked_for_the_versions_that_are_missing() -> None:
    """Each version once."""
    state = state_of()
    for said in ("a1", "b2"):
        judge(state, message(said), NotHereError("unknown", ("Job", 2)), NOW)
    assert state.missing == {("Job", 2)}


@pytest.mark.parametrize(
    ("arrived", "failed", "expected"),
    [
        # What fails behind another of its instance was not tried; one that is dead holds nobody up.
        ([2], {0: NO, 1: NO}, ["a1 retry"]),
        ([2], {0: PermanentError("never"), 1: NO}, ["a1 dead", "a2 retry"]),
        # An unreachable destination that has accepted nothing changes nothing.
        ([], {0: GONE, 1: GONE, 2: PermanentError("never")}, ["unreachable"]),
        ([0], {2: GONE, 1: GONE}, ["unreachable", "unreachable"]),
        ([], {2: NO, 0: NO}, ["a1 retry", "b3 retry"]),
    ],
)
def test_failures_of_many_are_judged_in_the_order_of_the_log(
    arrived: list[int], failed: dict[int, Exception], expected: list[str]
) -> None:
    """Whatever order they are told in."""
    rows, report = [message("a1"), message("a2"), message("b3")], DeliveryReport()
    report.delivered, report.failed = arrived, [*failed.items()]
    verdicts = [verdict for verdict, _ in judge_all(state_of(), rows, report, NOW)]
    assert [
        f"{names([each.letter])} {each.kind}" if each.letter else each.kind for each in verdicts
    ] == expected


def test_refusals_beside_what_arrives_do_not_count() -> None:
    """A destination that accepts messages is not to blame, however many instances are refused."""
    for arrived in ([], [0]):
        rows, report, state = [message(f"{chr(97 + n)}{n}") for n in range(20)], DeliveryReport(), state_of()
        report.delivered, report.failed = [*arrived], [(number, NO) for number in range(1, 20)]
        list(judge_all(state, rows, report, NOW))
        assert state.breaker.is_quiet == (not arrived)


# What is written.


def test_what_was_not_tried_waits_and_is_written_as_a_letter() -> None:
    """Results are true at any time, also when deliveries are cut off before they have begun."""
    state, results = state_of(), Results()
    plan = DeliveryPlan(Cursor(1, 1), tries=[message("a1")])
    assert results.is_untouched(plan)
    assert conclude(state, plan, results, NOW) == state.settlement(plan.cursor, [letter("a1")])
    results.delivered.add(1)
    assert conclude(state, plan, results, NOW) == state.settlement(plan.cursor)
    stored, results = DeliveryPlan(Cursor(1, 1), due=[letter("a1", 1)], tries=[letter("a1", 1)]), Results()
    assert conclude(state, stored, results, NOW) == state.settlement(stored.cursor)
    results.delivered.add(1)
    assert conclude(state, stored, results, NOW) == state.settlement(stored.cursor, delivered=[1])


def test_a_settlement_holds_all_that_has_become_of_a_plan() -> None:
    """What has failed is due after its pause; afterwards the backlog knows who waits."""
    state = state_of("a1*", "b2*", "c3*", most=3)
    due = [letter("a1", 1), letter("b2"), letter("c3")]
    read = page("a4", "d5", "e6", "f7", "g8")
    plan = choose(state, due, read, read)
    assert decided(plan) == ("a1 b2 c3 d5 e6 f7 g8", "", "a4", 8)
    results = Results()
    results.delivered |= {3, 5}
    for row, error in ((due[0], NO), (due[1], NO), (message("e6"), NO), (message("f7"), PermanentError("x"))):
        results.note(judge(state, row, error, NOW))
    written = conclude(state, plan, results, NOW)
    later = NOW + timedelta(seconds=10)
    assert {(names([row]), row.attempts, row.due, row.dead) for row in written.letters} == {
        ("a1", 2, NOW, True),
        ("a4", 0, NOW, True),
        ("b2", 1, later, False),
        ("e6", 1, later, False),
        ("f7", 1, NOW, True),
        ("g8", 0, NOW, False),
    }
    assert (written.consumer, written.holder, written.cursor) == ("shop", "node", Cursor(1, 8))
    assert written.delivered == (3,)
    remember(state, plan, results)
    assert {name: positions for (_, name), positions in state.backlog.waiting.items()} == {
        "b": {2},
        "e": {6},
        "g": {8},
    }
    assert {name for _, name in state.backlog.failed} == {"b", "e"}
