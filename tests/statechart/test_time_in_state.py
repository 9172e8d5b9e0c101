"""When the active leaf states were reached, and which lines of history say that they were left."""

from datetime import timedelta

import pytest

from headway import Parallel, State, Statechart
from headway.actions import count
from headway.testing import Journey

pytestmark = pytest.mark.mission("CON-TELL", "ENG-7")


class Nested(Statechart):
    """A state inside another, that can be entered again, and left by a state that is passed through."""

    a1, a2 = State(), State()
    a = State(a1, a2, initial=True)
    passed, b = State(), State()

    swap = a1.to(a2)
    again = a1.to(a1)
    note = a.stay(do=count("notes"))
    out = a.to(passed)
    through = passed.always.to(b)


class Regions(Statechart):
    """Two regions that move by themselves."""

    one, two = State(), State()
    text = State(one, two)
    red, blue = State(), State()
    pictures = State(red, blue)
    making = Parallel(text, pictures, initial=True)
    made = State()

    write = one.to(two)
    paint = red.to(blue)
    finish = making.to(made)


def stays(journey: Journey) -> list[tuple[str, int | None]]:
    """The states before each line, and for how many seconds the instance had been in them if it left them."""
    return [
        ("+".join(row.before), None if row.since is None else (row.at - row.since) // timedelta(seconds=1))
        for row in journey.history
    ]


def test_a_line_that_leaves_the_leaf_states_says_when_they_were_reached() -> None:
    """Also when they are entered again or only passed through; what only acts leaves nothing."""
    journey = Journey(Nested)
    begun = journey.clock.now()
    for event in ("note", "again", "swap", "note", "out"):
        journey.clock.advance("1s")
        journey.send(event)
    assert stays(journey) == [
        ("", None),
        ("a1", None),
        ("a1", 2),
        ("a1", 1),
        ("a2", None),
        ("a2", 2),
        ("passed", 0),
    ]
    assert journey.snapshot.reached == begun + timedelta(seconds=5)


def test_of_several_regions_the_last_move_counts() -> None:
    """The set of leaf states was reached when the last of them was entered."""
    journey = Journey(Regions)
    begun = journey.clock.now()
    assert journey.snapshot.reached == begun
    for event in ("paint", "write", "finish"):
        journey.clock.advance("1s")
        journey.send(event)
    assert stays(journey)[1:] == [("one+red", 1), ("one+blue", 1), ("two+blue", 1)]
    assert journey.snapshot.reached == begun + timedelta(seconds=3)
