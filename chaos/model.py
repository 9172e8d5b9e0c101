"""The door as one client alone knows it: `step`, and nothing around it."""

from datetime import UTC, datetime
from math import inf
from typing import Any, NamedTuple

from chaos.charts import Door
from chaos.client import LOOK
from chaos.linear import UNKNOWN, Model, Operation
from chaos.notes import Notes
from headway import Event, Refusal, Snapshot, start, step
from headway.codec import encode

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Push(NamedTuple):
    """What a client asked a door."""

    event: str
    mark: str
    expects: int | None = None

    def __str__(self) -> str:
        return self.event if self.expects is None else f"{self.event} at {self.expects}"


def door(name: str = "door") -> Model[Snapshot]:
    """A new door."""
    begun = start(Door, name, now=NOW)
    assert not isinstance(begun, Refusal)
    return Model(begun.snapshot, pushed, encode)


def pushed(snapshot: Snapshot, push: Push) -> tuple[dict[str, Any], Snapshot]:
    """What a door answers, and how it stands then."""
    if push.event == LOOK:
        mark = snapshot.context.get("mark")
        return {"seq": snapshot.seq, "state": snapshot.state, "mark": mark}, snapshot
    if push.expects not in {None, snapshot.seq}:
        return {"conflict": True, "seq": snapshot.seq}, snapshot
    outcome = step(Door, snapshot, Event(push.event, {"mark": push.mark}), NOW)
    if isinstance(outcome, Refusal):
        return {"refused": outcome.code}, snapshot
    after = outcome.snapshot
    return {"seq": after.seq, "state": after.state}, after


def operations(notes: Notes) -> dict[str, list[Operation]]:
    """What clients noted, door by door; what came to nothing is left out."""
    ends = {note.facts["deed"]: note for note in notes.of("sees", "comes to nothing")}
    found: dict[str, list[Operation]] = {}
    for note in notes.of("calls"):
        facts, end = note.facts, ends.get(note.facts["deed"])
        if end is not None and end.what == "comes to nothing":
            continue
        answer = UNKNOWN if end is None else {k: v for k, v in end.facts.items() if k != "deed"}
        push = Push(facts["event"], facts["deed"], facts["expects"])
        operation = Operation(facts["deed"], note.at, inf if end is None else end.at, push, answer)
        found.setdefault(facts["door"], []).append(operation)
    return found
