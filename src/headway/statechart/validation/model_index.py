"""The model with the look-ups that all validations share: its states, its actions, and who sends an event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, get_args

from headway.statechart import model
from headway.statechart.tree import comes_from_engine

ACTIONS = frozenset(get_args(model.Action))
LEAVES = frozenset({"atomic", "final", "shallow", "deep"})

Found = Iterator[tuple[str, str]]
"""Problems as pairs: the place (a state id, or transition@source) and the message."""


class ModelIndex(NamedTuple):
    """A model with the look-ups that its checks share."""

    whole: model.Model
    states: dict[str, model.State]
    children: dict[str, list[model.State]]

    @property
    def native(self) -> bool:
        """Whether the chart is written in Headway's own dialect."""
        return self.whole.dialect == "headway"

    def blocks(self) -> Iterator[tuple[str, tuple[model.Action, ...]]]:
        """The actions of every row and state, with their place."""
        yield "", self.whole.initial_actions
        for state in self.whole.states:
            for block in (*state.entry, *state.exit, state.initial_actions):
                yield state.id, block
        for row in self.whole.transitions:
            yield f"{row.name}@{row.source}", row.actions


def kind_name(kind: str) -> str:
    """The kind of a state as a message says it."""
    return {"final": "final", "shallow": "a history state", "deep": "a history state"}.get(kind, kind)


def comes_from_people(event: str) -> bool:
    """Whether an event is sent from outside, or answers an ask."""
    return event.startswith("answer.") or not comes_from_engine(event)
