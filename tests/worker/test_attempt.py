"""The end of an attempt, which embedded and remote workers share: what is sent, and what comes of it."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from headway import Event
from headway.engine.orders import Answer, Receipt
from headway.errors import (
    InputError,
    RequestReusedError,
    StoreUnavailableError,
    TooLargeError,
    UnknownInstanceError,
    UnknownVersionError,
)
from headway.statechart.refusal import Refusal
from headway.worker.attempt import (
    AttemptRef,
    Done,
    Fail,
    RunningAttempt,
    RunningAttempts,
    StopReason,
    conclude,
    lease_status,
    worker_id,
)
from headway.worker.progress import remaining
from tests.store.contract.place import work as work_row

pytestmark = pytest.mark.mission("ENG-10", "ENG-11")
REF = AttemptRef(tenant="acme", worker="w#1", id="a:1:0", attempt=2)
ACCEPTED = Receipt("a", "Job", 1, 2, "done", ("done",))
UNHEARD = Refusal("guard", "no", "work.done")
STALE = Refusal("stale", "the attempt is over", "work.done")


class Engine:
    """Answers one after the other; keeps what was sent."""

    def __init__(self, answers: Sequence[Answer | Exception | None]) -> None:
        self._answers = list(answers)
        self.sent: list[tuple[str, Any]] = []

    async def send(self, event: Event) -> Answer | None:
        """Answer, or raise."""
        assert (event.ref, event.attempt, event.by.id) == ("a:1:0", 2, "w#1")
        code = event.data.get("code") if isinstance(event.data, dict) else event.data
        self.sent.append((event.name, code))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


DONE, FAILED = ("work.done", 7), ("work.failed", "broken")
REFUSED, BAD = ("work.failed", "refused"), ("work.failed", "bad_result")
UNKNOWN = UnknownInstanceError("gone")
ENDS: list[tuple[object, list[Answer | Exception | None], str, str | None, list[tuple[str, Any]]]] = [
    (7, [ACCEPTED], "accepted", None, [DONE]),
    (Done(7), [ACCEPTED], "accepted", None, [DONE]),
    (Fail("broken"), [ACCEPTED], "accepted", None, [FAILED]),
    (Event("go", 1), [ACCEPTED], "accepted", None, [("go", 1)]),
    (7, [UNHEARD, ACCEPTED], "refused", "refused", [DONE, REFUSED]),
    (Fail("broken"), [UNHEARD, ACCEPTED], "refused", "refused", [FAILED, REFUSED]),
    (object(), [ACCEPTED], "refused", "bad_result", [BAD]),
    (7, [TooLargeError("too large"), ACCEPTED], "refused", "bad_result", [DONE, BAD]),
    (7, [InputError("not JSON"), ACCEPTED], "refused", "bad_result", [DONE, BAD]),
    (7, [UNHEARD, UNHEARD], "stuck", "refused", [DONE, REFUSED]),
    (7, [TooLargeError("too large"), UNHEARD], "stuck", "bad_result", [DONE, BAD]),
    (Fail("refused"), [UNHEARD], "stuck", "refused", [REFUSED]),
    (7, [STALE], "over", None, [DONE]),
    (7, [Refusal("terminal", "it has ended", "work.done")], "over", None, [DONE]),
    (7, [UNHEARD, STALE], "over", None, [DONE, REFUSED]),
    (7, [UNKNOWN], "over", None, [DONE]),
    (7, [RequestReusedError("another outcome")], "over", None, [DONE]),
    (7, [None], "elsewhere", None, [DONE]),
    (7, [UNHEARD, None], "elsewhere", None, [DONE, REFUSED]),
]


@pytest.mark.parametrize(("outcome", "answers", "end", "code", "sent"), ENDS)
async def test_an_attempt_ends_once_or_fails_with_a_code(
    *,
    outcome: object,
    answers: list[Answer | Exception | None],
    end: str,
    code: str | None,
    sent: list[tuple[str, Any]],
) -> None:
    """An outcome that is not accepted fails the work; a failure that is not accepted is not sent again."""
    engine = Engine(answers)
    conclusion = await conclude(REF, outcome, engine.send)
    assert (conclusion.end, conclusion.failure and conclusion.failure.code) == (end, code)
    assert (conclusion.receipt is ACCEPTED) == (end in {"accepted", "refused"})
    assert engine.sent == sent


@pytest.mark.parametrize(
    "error", [StoreUnavailableError("away"), UnknownVersionError("Job", 2, "Job v1"), RuntimeError("a bug")]
)
async def test_errors_that_are_not_about_the_outcome_are_raised(error: Exception) -> None:
    """Whether to try again, to forward or to give up differs between embedded and remote workers."""
    with pytest.raises(type(error)):
        await conclude(REF, 7, Engine([error]).send)


def test_a_lease_is_held_by_one_worker_for_one_attempt() -> None:
    """Another worker, another attempt, nobody, and work that is gone."""
    assert lease_status(REF, work_row("a:1:0", worker="w#1", attempt=2)) == "held"
    assert lease_status(REF, work_row("a:1:0", worker="w#2", attempt=2)) == "lost"
    assert lease_status(REF, work_row("a:1:0", worker="w#1", attempt=3)) == "lost"
    assert lease_status(REF, work_row("a:1:0", worker=None, attempt=2)) == "lost"
    assert lease_status(REF, None) == "left"


def test_no_two_names_of_workers_give_the_same_id() -> None:
    """A slash or a percent sign in a name cannot imitate another worker."""
    names = [("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c"), ("a", "b%2Fc"), ("a/b/c",), ("a%2Fb%2Fc",)]
    assert len({worker_id(*each) for each in names}) == len(names)
    assert worker_id("ann", "mill") == "ann/mill"


@pytest.mark.parametrize(
    ("elapsed", "fraction", "start", "seconds"),
    [(10, 0.5, 0.0, 10), (30, 0.75, 0.0, 10), (10, 0.75, 0.5, 10), (10, 1.0, 0.0, 0)],
)
def test_the_estimate_assumes_the_rate_so_far(
    elapsed: float, fraction: float, start: float, seconds: float
) -> None:
    """What an earlier attempt has done does not count."""
    assert remaining(elapsed, fraction, start) == pytest.approx(seconds)


def test_without_progress_there_is_no_estimate() -> None:
    """Neither at the start nor after a step back."""
    assert remaining(10, 0.0) is None
    assert remaining(10, 0.5, 0.5) is None
    assert remaining(10, 0.3, 0.5) is None


@pytest.mark.parametrize(
    ("reasons", "final", "holds"),
    [
        (["drain"], "drain", True),
        (["lost"], "lost", False),
        (["drain", "lost"], "lost", False),
        (["drain", "left"], "left", False),
        (["drain", "timeout"], "drain", True),
        (["timeout", "lost"], "timeout", True),
        (["timeout", "drain"], "timeout", True),
        (["left", "drain"], "left", False),
    ],
)
def test_the_first_reason_to_stop_stands_unless_a_drained_attempt_is_obsolete(
    reasons: Sequence[StopReason], final: StopReason, *, holds: bool
) -> None:
    """A worker that drains does not release work that it has lost meanwhile: it has become another's."""
    attempts = RunningAttempts(2, Counter())
    running = RunningAttempt(work_row(), "w#1", in_thread=True, claimed=0, now=0)
    attempts.add(running)
    for reason in reasons:
        attempts.cancel(running, reason)
    assert (running.cancelled, running.key in attempts.held) == (final, holds)
    assert (running in attempts.lingering, attempts.room) == (not holds, 1)


def test_an_attempt_whose_outcome_is_being_sent_is_not_stopped() -> None:
    """What the handler has returned is sent to its end."""
    attempts = RunningAttempts(1, Counter())
    running = RunningAttempt(work_row(), "w#1", in_thread=False, claimed=0, now=0)
    attempts.add(running)
    running.ending = True
    attempts.cancel(running, "drain")
    assert (running.cancelled, running.key in attempts.held) == (None, True)
