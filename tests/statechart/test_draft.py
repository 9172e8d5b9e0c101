"""The working copy of a step."""

import pytest

from headway import Event, State, Statechart
from headway.clock import SystemClock
from headway.codec import replace
from headway.statechart.snapshot import Snapshot
from headway.statechart.step.draft import draft_of

pytestmark = pytest.mark.mission("ENG-1")


class Lamp(Statechart):
    """Two states."""

    off, on = State(initial=True), State()
    press = off.to(on) | on.to(off)


def test_a_draft_keeps_every_field_of_its_snapshot() -> None:
    """Snapshot and draft are built by position, for speed: no field may end up as another one."""
    marks = {name: f"the {name}" for name in Snapshot.__struct_fields__}
    before = Snapshot(**marks | {"states": ("on",), "seq": 4})  # type: ignore[arg-type]  # marks, not values
    draft = draft_of(Lamp.chart, before, Event("press"), SystemClock().now(), facts={})
    assert draft.snapshot() == replace(before, seq=5)
