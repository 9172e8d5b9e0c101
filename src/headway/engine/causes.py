"""Why something went wrong: the last error of an instance's work, and what ended it.

They are read from its last lines of history: old instances have these too, and what is sensitive is
hidden in them already.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from headway.codec import Value
from headway.engine.redaction import data_of
from headway.errors import InputError
from headway.statechart.chart import Chart
from headway.statechart.snapshot import SYSTEM, Snapshot
from headway.statechart.step.work import policy_for
from headway.store.rows import HistoryRow

MOST_LINES = 50
"""How many of its last lines are looked at."""
LONGEST_TEXT = 300
ERROR, DONE = "error.work.", "done.work."

Then = Literal["again", "used_up", "not_retried", "left"]
THEN: dict[Then, str] = {
    "again": "Attempt {attempt} is due{due}.",
    "used_up": "Its attempts are used up.",
    "not_retried": "The chart does not retry this error.",
    "left": "The work was left before the next attempt.",
}


class Failure(Value):
    """An error of work after which the work has not succeeded; `next_try` is when the next attempt comes.

    `state` is empty where the history does not name the state of the work. `then` says what followed: another
    attempt, or why there is none.
    """

    state: str
    code: str
    message: str
    attempt: int
    at: datetime
    by: str
    next_attempt: int | None = None
    next_try: datetime | None = None
    then: Then = "left"

    @property
    def said(self) -> str:
        """The error in words, without what follows."""
        work = f"the work of {self.state}" if self.state else "the work"
        message = f": {self.message}" if self.message else ""
        return f"attempt {self.attempt} of {work} failed with {self.code}{message}{_node(self.by)}"

    def __str__(self) -> str:
        """What a person wants to read."""
        due = "" if self.next_try is None else f" at {self.next_try.isoformat()}"
        then = THEN[self.then].format(attempt=self.next_attempt, due=due)
        return f"{self.said[0].upper()}{self.said[1:]}. {then}"


class EndCause(Value):
    """What ended an instance: the event, who sent it and why; of work that failed, its error, too."""

    event: str
    by: str
    at: datetime
    said: str
    reason: str | None = None
    attempt: int = 0
    code: str | None = None
    message: str | None = None

    def __str__(self) -> str:
        """What a person wants to read."""
        reason = f" ({self.reason})" if self.reason else ""
        return f"It ended at {self.at.isoformat()}: {self.said}{reason}."


def last_failure(chart: Chart, snapshot: Snapshot, newest: Sequence[HistoryRow]) -> Failure | None:
    """The last error of work that has not succeeded since."""
    succeeded: set[str] = set()
    for line in newest:
        if line.event.startswith(DONE):
            succeeded.add(line.event.removeprefix(DONE))
        elif line.event.startswith(ERROR):
            failure = _final(chart, line)
            if failure.state not in succeeded:
                return failure
        elif line.event == "work.failed":
            retried = _retried(chart, snapshot, line)
            if retried is not None and retried.state not in succeeded:
                return retried
    return None


def ending_of(chart: Chart, snapshot: Snapshot, newest: Sequence[HistoryRow]) -> EndCause | None:
    """What ended an instance; None while it lives, and where the line is no longer kept."""
    if not snapshot.ended:
        return None
    last = next((line.seq for line in newest if line.before != line.after), None)
    first = next((line for line in newest if line.seq == last and line.row == 0), None)
    if first is None:
        return None
    failure = _final(chart, first) if first.event.startswith(ERROR) else None
    return EndCause(
        event=first.event,
        by=first.actor,
        at=first.at,
        said=failure.said if failure else _said(chart, first),
        reason=None if first.reason is None else cut_text(first.reason),
        attempt=first.attempt,
        code=failure.code if failure else None,
        message=failure.message if failure else None,
    )


def _said(chart: Chart, line: HistoryRow) -> str:
    """In words what an event was that ended an instance."""
    kind, _, rest = line.event.partition(".")
    if kind == "deadline" and rest:
        return f"the deadline of {rest} passed"
    if kind == "after" and rest:
        return f"the timer {line.event} was due"
    if line.event.startswith(DONE):
        return f"the work of {line.event.removeprefix(DONE)} was done{_node(line.actor)}"
    if line.event == chart.model.cancel:
        return f"{line.actor} cancelled it"
    return f"{line.actor} sent {line.event}"


def _final(chart: Chart, line: HistoryRow) -> Failure:
    """The error after which no other attempt came."""
    state, _, code = line.event.removeprefix(ERROR).rpartition(".")
    is_retried = _fields(line).get("cause") == "lost" or _is_retried(chart, state, code)
    return _failure(line, state, code, then="used_up" if is_retried else "not_retried")


def _retried(chart: Chart, snapshot: Snapshot, line: HistoryRow) -> Failure | None:
    """The error of an attempt after which another one came, with that one if it is still to end.

    None if an attempt after that one has begun, or if its work was left, and nobody knows in which state.
    """
    code = str(_fields(line).get("code", line.reason))
    working = _working(chart, line)
    for state in working:
        work = snapshot.work.get(state)
        if work is not None and work.attempt == line.attempt + 1:
            following = {"next_attempt": work.attempt, "next_try": work.due}
            return _failure(line, state, code, then="again", **following)
    return _failure(line, working[0], code) if len(working) == 1 else None


def _working(chart: Chart, line: HistoryRow) -> list[str]:
    """The states with work that were active before a line."""
    try:
        active = chart.configuration(tuple(line.before.split("+")))
    except InputError:  # states of another version, before an upgrade
        return []
    return [node.id for node in active if node.model.run is not None]


def _is_retried(chart: Chart, state: str, code: str) -> bool:
    node = chart.nodes.get(state)
    run = node.model.run if node is not None else None
    return run is not None and policy_for(run, code) is not None


def _failure(line: HistoryRow, state: str, code: str, **more: Any) -> Failure:
    data = _fields(line)
    message = cut_text(str(data.get("message") or ""))
    return Failure(
        state=state, code=code, message=message, attempt=line.attempt, at=line.at, by=line.actor, **more
    )


def _fields(line: HistoryRow) -> dict[str, Any]:
    data = data_of(line)
    return data if isinstance(data, dict) else {}


def cut_text(text: str) -> str:
    """A text of at most 300 characters."""
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


def _node(by: str) -> str:
    """Where it was, unless nobody knows: the engine itself ends what was lost."""
    return "" if by == SYSTEM.id else f" (on {by})"
