"""SCXML's semantics, one rule at a time, through the words charts are written in."""

import pytest

from headway import Event, Final, History, Parallel, Refusal, State, Statechart, Step
from headway.actions import assign, count, put
from headway.statechart import model
from headway.statechart.effects import CancelTimer, SetTimer, WriteLog
from headway.testing import Journey

pytestmark = pytest.mark.mission("ENG-1")


def log(label: str) -> model.Log:
    """An action that leaves a trace."""
    return model.Log(label=label)


def logged(step: Step) -> list[str]:
    """The traces of a step, in order."""
    return [effect.label for effect in step.effects if isinstance(effect, WriteLog)]


def noisy(name: str, *children: State, initial: bool = False) -> State:
    """A state that leaves a trace when it is entered and left."""
    return State(*children, initial=initial, entry=log(f"+{name}"), exit=log(f"-{name}"))


class Nested(Statechart):
    """Two levels, with a trace of every move."""

    a1 = noisy("a1")
    a2 = noisy("a2")
    a = noisy("a", a1, a2, initial=True)
    b = noisy("b")

    swap = a1.to(a2, do=log("swap")) | a2.to(a1, do=log("swap back"))
    out = a.to(b, do=log("out"))
    back = b.to(a2, do=log("back"))
    again = a.to(a1, do=log("again"))
    within = a.to(a1, internal=True, do=log("within"))
    itself = a.to(a, do=log("itself"))
    note = a.stay(do=log("note"))


@pytest.mark.parametrize(
    ("events", "trace"),
    [
        (["swap"], ["-a1", "swap", "+a2"]),
        (["out"], ["-a1", "-a", "out", "+b"]),
        (["out", "back"], ["-b", "back", "+a", "+a2"]),
        (["again"], ["-a1", "-a", "again", "+a", "+a1"]),
        (["within"], ["-a1", "within", "+a1"]),
        (["itself"], ["-a1", "-a", "itself", "+a", "+a1"]),
        (["note"], ["note"]),
    ],
)
def test_children_are_left_first_then_actions_run_then_parents_are_entered_first(
    events: list[str], trace: list[str]
) -> None:
    """Exit is inside out, entry outside in, actions between; internal and targetless ones leave no more."""
    journey = Journey(Nested)
    assert logged(journey.steps[0]) == ["+a", "+a1"]
    for event in events:
        journey.send(event)
    assert logged(journey.steps[-1]) == trace


class Regions(Statechart):
    """Two regions that end on their own."""

    writing = noisy("writing")
    written = Final(entry=log("+written"))
    text = noisy("text", writing, written)
    drawing = noisy("drawing")
    drawn = Final(entry=log("+drawn"))
    pictures = noisy("pictures", drawing, drawn)
    making = Parallel(text, pictures, initial=True, entry=log("+making"), exit=log("-making"))
    printing = State()

    write = writing.to(written, do=log("write"))
    draw = drawing.to(drawn, do=log("draw"))
    both = writing.to(written, do=log("first")) | drawing.to(drawn, do=log("second"))
    text_done = text.on_done.stay(do=log("text done"))
    finish = making.on_done.to(printing, do=log("finish"))


def test_parallel_regions_are_entered_in_document_order_and_left_in_reverse() -> None:
    """Every region is active at once, and the order in which they are entered and left is fixed."""
    journey = Journey(Regions)
    assert journey.states == ("writing", "drawing")
    assert logged(journey.steps[0]) == ["+making", "+text", "+writing", "+pictures", "+drawing"]
    journey.send("write")
    done = journey.send("draw")
    assert logged(done)[-4:] == ["-pictures", "-text", "-making", "finish"]


def test_a_parallel_state_is_done_when_every_region_is() -> None:
    """The done event of a region comes when that region ends, the whole's when the last one does."""
    journey = Journey(Regions)
    assert logged(journey.send("write")) == ["-writing", "write", "+written", "text done"]
    assert journey.is_in("drawing")
    journey.send("draw")
    assert journey.states == ("printing",)


def test_one_event_moves_every_region_that_waits_for_it() -> None:
    """Transitions of different regions are taken together: all leave, then all act, then all enter."""
    journey = Journey(Regions)
    step = journey.send("both")
    assert logged(step)[:6] == ["-drawing", "-writing", "first", "second", "+written", "+drawn"]
    assert step.history[0].transition == "both, both"


class Conflict(Statechart):
    """Two regions that want to leave their parent by the same event."""

    left1, left2 = State(), State()
    left = State(left1, left2)
    right1, right2 = State(), State()
    right = State(right1, right2)
    whole = Parallel(left, right, initial=True)
    first, second, outer = State(), State(), State()

    leave = left1.to(first) | right1.to(second)
    inner = left1.to(left2) | whole.to(outer)


@pytest.mark.parametrize(("event", "ends_in"), [("leave", ("first",)), ("inner", ("left2", "right1"))])
def test_of_conflicting_transitions_the_inner_wins_else_the_first_in_the_document(
    event: str, ends_in: tuple[str, ...]
) -> None:
    """Two transitions that would leave the same state are never both taken."""
    journey = Journey(Conflict)
    journey.send(event)
    assert journey.states == ends_in


class Priorities(Statechart):
    """The same event, waited for by a child, its parent and twice in one place."""

    inner = State()
    outer = State(inner, initial=True)
    first, second, other = State(), State(), State()

    from_parent = outer.to(other, event=("go", "only_outside"))
    first_row = inner.to(first, event="go", when="closed")
    second_row = inner.to(second, event="go")


@pytest.mark.parametrize(
    ("closed", "event", "ends_in"),
    [(True, "go", "first"), (False, "go", "second"), (True, "only_outside", "other")],
)
def test_the_innermost_state_goes_first_and_within_it_the_order_of_the_document(
    closed: bool,  # noqa: FBT001 - a column of the table
    event: str,
    ends_in: str,
) -> None:
    """A child's transitions come before its parent's, earlier rows before later ones."""
    journey = Journey(Priorities, context={"closed": closed})
    journey.send(event)
    assert journey.states == (ends_in,)


class Remembering(Statechart):
    """A pause that comes back to where it was, at either depth."""

    x1, x2 = State(), State()
    x = State(x1, x2)
    y = State()
    shallow = History(otherwise=y)
    deep = History(deep=True)
    work = State(x, y, shallow, deep, initial=True)
    pause = State()
    begin_paused = State()

    forward = x1.to(x2)
    rest = work.to(pause)
    resume = pause.to(shallow)
    resume_exactly = pause.to(deep)
    jump = work.to(begin_paused)
    fresh = begin_paused.to(shallow)
    over = x2.to(y)


@pytest.mark.parametrize(
    ("events", "ends_in"),
    [
        (["forward", "rest", "resume"], "x1"),
        (["forward", "rest", "resume_exactly"], "x2"),
        (["forward", "over", "rest", "resume_exactly"], "y"),
        (["forward", "over", "rest", "resume"], "y"),
    ],
)
def test_history_brings_back_the_child_or_the_exact_place(events: list[str], ends_in: str) -> None:
    """Shallow history restores the child, which begins anew; deep history restores the atomic state."""
    journey = Journey(Remembering)
    for event in events:
        journey.send(event)
    assert journey.states == (ends_in,)


class NeverEntered(Statechart):
    """A way to history before there is any."""

    one, two = State(), State()
    told = History(otherwise=two)
    untold = History()
    work = State(one, two, told, untold)
    waiting = State(initial=True)

    go = waiting.to(told)
    go_untold = waiting.to(untold)


@pytest.mark.parametrize(("event", "ends_in"), [("go", "two"), ("go_untold", "one")])
def test_history_without_a_past_takes_its_default_or_the_first_child(event: str, ends_in: str) -> None:
    """What a history state stands for at first is said by the chart, else it is the parent's beginning."""
    journey = Journey(NeverEntered)
    journey.send(event)
    assert journey.states == (ends_in,)


class Chain(Statechart):
    """Transitions without an event, taken one after the other."""

    ask_small = State(initial=True)
    sort = State()
    small, large = State(), State()

    enter = ask_small.to(sort, do=assign(size="_event.data.size"))
    is_small = sort.always.to(small, when="size < 10")
    is_large = sort.always.to(large)


@pytest.mark.parametrize(("size", "ends_in"), [(3, "small"), (30, "large")])
def test_eventless_transitions_are_taken_at_once_when_their_guard_holds(size: int, ends_in: str) -> None:
    """A state with a way that needs no event is left within the same step, with a line of history each."""
    journey = Journey(Chain, context={"size": 0})
    step = journey.send(Chain.enter({"size": size}))
    assert [row.after for row in step.history] == [("sort",), (ends_in,)]


class Names(Statechart):
    """Events by prefix and by wildcard."""

    idle = State(initial=True)
    exact, prefix, anything = State(), State(), State()

    take_exact = idle.to(exact, event="note.disk.full.now")
    take_prefix = idle.to(prefix, event="note.disk")
    take_any = idle.to(anything, event="*")


@pytest.mark.parametrize(
    ("event", "ends_in"),
    [
        ("note.disk.full.now", "exact"),
        ("note.disk", "prefix"),
        ("note.disk.full", "prefix"),
        ("note.diskette", "anything"),
        ("note", "anything"),
        ("hello", "anything"),
    ],
)
def test_event_names_match_by_whole_words_from_the_left(event: str, ends_in: str) -> None:
    """A descriptor takes its name and what is below it; `*` takes everything."""
    journey = Journey(Names)
    journey.send(event)
    assert journey.states == (ends_in,)


class Queues(Statechart):
    """An action raises an event and sends one to its own instance."""

    calm = State(initial=True)
    busy = State()
    other = State()

    go = calm.to(busy, do=(model.Send(event="sent"), model.Raise(event="raised"), count("goes")))
    on_raised = busy.stay(event="raised", do=log("raised"))
    on_sent = busy.stay(event="sent", do=log("sent"))
    unheard = other.stay()


def test_internal_events_come_before_those_sent_to_oneself_and_all_before_the_next() -> None:
    """A step runs to completion: raised first, sent second, whatever the order they were made in."""
    journey = Journey(Queues)
    assert logged(journey.send("go")) == ["raised", "sent"]
    assert journey.snapshot.counters == {"goes": 1}


class Endless(Statechart):
    """A mistake: two states that send each other on without end."""

    rest = State(initial=True)
    ping, pong = State(), State()

    begin = rest.to(ping, do=put(begun=True))
    there = ping.always.to(pong)
    back = pong.always.to(ping)


def test_a_step_that_would_never_end_is_refused_and_changes_nothing() -> None:
    """Run to completion is bounded: a loop without events is a refusal, not a hang."""
    journey = Journey(Endless)
    refusal = journey.refused("begin")
    assert refusal.code == "runaway"
    assert journey.states == ("rest",)
    assert journey.snapshot.context == {}


class Delayed(Statechart):
    """An event to oneself that comes later, unless it is cancelled."""

    idle = State(initial=True)
    armed = State()
    fired = State()

    arm = idle.to(armed, do=model.Send(event="alarm", delay=5_000, id="alarm clock"))
    disarm = armed.stay(do=model.Cancel(id="alarm clock"))
    alarm = armed.to(fired)


def test_a_delayed_event_comes_when_it_is_due() -> None:
    """Sent with a delay, an event is a timer first."""
    journey = Journey(Delayed)
    (timer,) = [each for each in journey.send("arm").effects if isinstance(each, SetTimer)]
    assert timer.event == "alarm"
    journey.advance("4s")
    assert journey.states == ("armed",)
    journey.advance("1s")
    assert journey.states == ("fired",)


def test_a_cancelled_delayed_event_never_comes() -> None:
    """Cancel by the id it was sent with takes the timer back."""
    journey = Journey(Delayed)
    (timer,) = journey.send("arm").snapshot.timers
    cancelled = journey.send("disarm")
    assert [effect.timer for effect in cancelled.effects if isinstance(effect, CancelTimer)] == [timer]
    journey.advance("1d")
    assert journey.states == ("armed",)


def test_a_final_at_the_top_ends_the_life_and_closes_what_is_open() -> None:
    """After the end nothing is active that could fire, and every event is refused as terminal."""

    class Ending(Statechart):
        live = State(initial=True, exit=log("-live"))
        over = Final(entry=log("+over"))

        late = live.after("1d").to(over)
        remember = live.stay(do=model.Send(event="finish", delay=1_000))
        finish = live.to(over)

    journey = Journey(Ending)
    journey.send("remember")
    step = journey.send("finish")
    assert logged(step) == ["-live", "+over"]
    assert (step.snapshot.ended, step.snapshot.timers) == (True, {})
    assert journey.refused("remember").code == "terminal"
    assert journey.refused(Event("finish")).code == "already"


def test_a_choice_between_regions_is_the_same_every_time() -> None:
    """The same event on the same snapshot gives the same answer, refusals included."""
    first, second = Journey(Regions), Journey(Regions)
    for event in ("write", "write", "both", "both"):
        one, other = first.attempt(event), second.attempt(event)
        assert one == other
        assert isinstance(one, (Step, Refusal))
