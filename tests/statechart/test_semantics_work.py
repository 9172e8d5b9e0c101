"""What lasts as long as a state: timers, work and its retries; and children, progress, computed status."""

from datetime import timedelta
from typing import Any

import pytest

from headway import Final, Refusal, Retry, Run, State, Statechart, Step, View, any_live, start, step
from headway.actions import count, put, spawn
from headway.clock import time_text
from headway.statechart import model
from headway.statechart.effects import (
    CancelTimer,
    CancelWork,
    PublishMessage,
    ReportToParent,
    SetTimer,
    SpawnChild,
    StartWork,
)
from headway.statechart.snapshot import child_changed, children_changed, timer_fired, work_done, work_failed
from headway.statechart.step.work import delay
from headway.testing import FakeClock, Journey

NOW = FakeClock().now()


class Waiting(Statechart):
    """A state with a time limit that can be left and come back to."""

    waiting = State(initial=True)
    away = State()
    late = State()

    leave = waiting.to(away)
    come_back = away.to(waiting)
    again = waiting.to(waiting)
    limit = waiting.after("5m").to(late)


@pytest.mark.mission("ENG-9")
def test_a_timer_of_a_state_that_was_left_is_refused() -> None:
    """Left, or left and entered again: the old timer is stale, and the new one has another id."""
    journey = Journey(Waiting)
    (old,) = journey.snapshot.timers
    left = journey.send("leave")
    assert [each.timer for each in left.effects if isinstance(each, CancelTimer)] == [old]
    journey.clock.advance("5m")
    assert journey.refused(timer_fired(old)).code == "stale"
    back = journey.send("come_back")
    (new,) = [each.timer for each in back.effects if isinstance(each, SetTimer)]
    assert new != old
    assert journey.refused(timer_fired(old)).code == "stale"
    assert journey.refused(timer_fired(new)).code == "early"
    journey.advance("5m")
    assert journey.states == ("late",)


@pytest.mark.mission("ENG-9")
def test_entering_a_state_anew_starts_its_time_anew() -> None:
    """A transition to oneself is a new generation of the timer, and it fires once."""
    journey = Journey(Waiting)
    journey.advance("4m")
    journey.send("again")
    journey.advance("4m")
    assert journey.states == ("waiting",)
    (timer,) = journey.snapshot.timers
    journey.advance("1m")
    assert journey.refused(timer_fired(timer)).code == "stale"


@pytest.mark.mission("ENG-9")
def test_timers_fire_in_the_order_they_are_due() -> None:
    """Of several timers the earliest goes first, and each is set from the time its state was entered."""

    class Ordered(Statechart):
        both = State(initial=True)
        soon, later = State(), State()

        to_later = both.after("10m").to(later)
        to_soon = both.after("1m").to(soon)

    journey = Journey(Ordered)
    journey.advance("1h")
    assert journey.states == ("soon",)
    assert journey.history[-1].at == NOW + timedelta(minutes=1)


class Paying(Statechart):
    """Work that can fail in three ways."""

    paying = State(
        initial=True,
        run=Run(
            "pay",
            timeout="60s",
            retry=(
                Retry.never("declined"),
                Retry(times=1, on="busy", base="10s", jitter=0),
                Retry(times=4, base="2s", factor=3, cap="20s", jitter=0.25),
            ),
            errors=("declined", "busy", "network"),
        ),
        progress=(20, 60),
        says="paying {amount}: {stage}",
    )
    paid = Final()
    refused, failed, stopped = State(), State(), State()

    done = paying.on_done.to(paid, do=put(settled=True))
    no = paying.on_error("declined").to(refused)
    broken = paying.on_error.to(failed)
    stop = any_live.to(stopped, but=(stopped,))
    restart = stopped.to(paying)


def works(journey: Journey) -> list[StartWork]:
    """The attempts that were put before the workers."""
    return [effect for effect in journey.effects if isinstance(effect, StartWork)]


@pytest.mark.mission("ENG-10")
def test_work_starts_with_its_state_and_is_cancelled_with_it() -> None:
    """A worker gets handler and limits; leaving the state stops it; coming back is new work."""
    journey = Journey(Paying)
    (first,) = works(journey)
    assert (first.handler, first.attempt, first.timeout) == ("pay", 1, 60_000)
    assert (first.heartbeat, first.lease) == (10_000, 90_000)
    stopped = journey.send("stop")
    assert [effect.work for effect in stopped.effects if isinstance(effect, CancelWork)] == [first.work]
    journey.send("restart")
    assert works(journey)[-1].work != first.work
    assert journey.refused(work_done(first.work, 1)).code == "stale"


@pytest.mark.mission("ENG-10", "ENG-11")
@pytest.mark.parametrize("event", [work_done, lambda work, attempt: work_failed(work, attempt, "network")])
def test_only_the_attempt_under_way_can_end_the_work(event: object) -> None:
    """An attempt that is over, or one that never was, finishes nothing."""
    journey = Journey(Paying)
    journey.work_fails("network")
    work = works(journey)[0].work
    for attempt in (0, 1, 3):
        assert journey.refused(event(work, attempt)).code == "stale"  # type: ignore[operator]  # the table holds functions
    journey.work_done()
    assert journey.states == ("paid",)
    assert journey.snapshot.context == {"settled": True}


@pytest.mark.mission("ENG-11")
def test_each_class_of_error_has_its_own_limit() -> None:
    """Permanent is never retried, "busy" once, others four times; one class does not use up another's."""
    never = Journey(Paying)
    never.work_fails("declined")
    assert (never.states, len(works(never))) == (("refused",), 1)
    journey = Journey(Paying)
    for code in ("busy", "network", "network", "other", "network"):
        journey.work_fails(code)
        assert journey.states == ("paying",)
    assert [each.attempt for each in works(journey)] == [1, 2, 3, 4, 5, 6]
    journey.work_fails("busy")
    assert journey.states == ("failed",)
    assert journey.snapshot.work == {}


@pytest.mark.mission("ENG-11")
@pytest.mark.parametrize("seed", range(20))
def test_delays_grow_by_the_factor_up_to_the_cap_within_the_jitter(seed: int) -> None:
    """2 s, 6 s, 18 s, then the cap of 20 s, each spread by at most a quarter, the same for the same seed."""
    waits: list[list[float]] = []
    for _ in range(2):
        journey = Journey(Paying, seed=seed)
        waits.append([])
        for _ in range(4):
            failed = journey.work_fails("network")
            (retry,) = [each for each in failed.effects if isinstance(each, StartWork)]
            assert retry.due is not None
            waits[-1].append((retry.due - journey.clock.now()) / timedelta(seconds=1))
    assert waits[0] == waits[1]
    for wait, expected in zip(waits[0], (2, 6, 18, 20), strict=True):
        assert expected * 0.75 <= wait <= min(expected * 1.25, 20)


@pytest.mark.mission("ENG-11")
def test_jitter_spreads_instances_apart() -> None:
    """Different seeds give different delays, so that what failed together does not come back together."""
    policy = model.Retry(times=5, base=10_000, jitter=0.3)
    waits = [delay(policy, 1, seed) for seed in range(1_000)]
    assert min(waits) >= 7_000
    assert max(waits) <= 13_000
    assert len(set(waits)) > 800
    assert 9_800 < sum(waits) / len(waits) < 10_200
    capped = model.Retry(times=5, base=10_000, cap=10_000, jitter=0.3)
    assert len({delay(capped, 5, seed) for seed in range(1_000)}) > 400


@pytest.mark.mission("ENG-10")
def test_progress_maps_the_workers_share_into_the_range_of_the_state() -> None:
    """Entering sets the lower end, a report what lies between, the end of the work the upper end."""
    journey = Journey(Paying, context={"amount": 7})
    assert journey.snapshot.progress == 20
    told = journey.work_progress(0.5, stage="signing", counters={"pages": 3})
    assert journey.snapshot.progress == 40
    assert journey.snapshot.counters == {"pages": 3}
    (message,) = [effect for effect in told.effects if isinstance(effect, PublishMessage)]
    assert (message.kind, message.name) == ("live", "progress")
    assert message.data == {
        "instance": "it",
        "step": "paying",
        "pct": 40.0,
        "message": "paying 7: signing",
        "attempt": 1,
        "fraction": 0.5,
        "eta_seconds": None,
        "counters": {"pages": 3},
    }
    assert not told.history
    journey.work_done()
    assert journey.snapshot.progress == 60


def pages(view: View) -> list[dict[str, int]]:
    """One child for each page."""
    return [{"page": number} for number in range(view.context["pages"])]


class Crawl(Statechart, max_depth=2, max_children=4):
    """A parent whose state follows from its children."""

    planning = State(initial=True)
    running = State()
    finished = Final()

    begin = planning.to(running, do=spawn("Page", pages, site="example.org"))
    heard = running.on("child.changed").stay(do=count("heard"))
    finish = running.always.to(finished, when="children.done == 3 and counters.errors < 2")


class Again(Statechart):
    """Fails, and may begin to count anew."""

    trying = State(initial=True)
    fail = trying.stay(counts="errors")
    begin_anew = trying.stay(do=count("errors", "0 - counters.errors"))


@pytest.mark.mission("ENG-12")
def test_a_parent_counts_its_children_by_status_and_follows_them() -> None:
    """Each change moves one child from count to count, errors add up, and the last one moves the parent."""
    journey = Journey(Crawl, context={"pages": 3})
    begun = journey.send("begin")
    made = [effect for effect in begun.effects if isinstance(effect, SpawnChild)]
    assert [child.context for child in made] == [
        {"site": "example.org", "page": number} for number in range(3)
    ]
    assert len({child.child for child in made}) == 3
    assert begun.snapshot.children == {"new": 3}
    for child in made:
        journey.send(child_changed(child.child, None, "loading", errors=int(child is made[0])))
    assert journey.snapshot.children == {"loading": 3}
    for child in made:
        journey.send(child_changed(child.child, "loading", "done"))
    assert journey.states == ("finished",)
    assert journey.snapshot.counters == {"heard": 6, "errors": 1}


@pytest.mark.mission("ENG-12")
def test_a_change_of_a_child_that_is_not_there_is_refused() -> None:
    """The counts never go below zero, whatever is told twice."""
    journey = Journey(Crawl, context={"pages": 1})
    journey.send("begin")
    journey.send(child_changed("c", None, "done"))
    assert journey.refused(child_changed("c", None, "done")).code == "stale"
    assert journey.snapshot.children == {"done": 1}


@pytest.mark.mission("ENG-12")
def test_several_changes_can_be_told_as_one() -> None:
    """The counts move by as much as is told, in whichever order it happened."""
    journey = Journey(Crawl, context={"pages": 4})
    journey.send("begin")
    journey.send(children_changed({"new": -4, "loading": 3, "done": 1}, errors=2))
    assert journey.snapshot.children == {"loading": 3, "done": 1}
    assert journey.snapshot.counters == {"heard": 1, "errors": 2}
    journey.send(children_changed({"done": 1, "loading": -1}))
    assert journey.snapshot.children == {"loading": 2, "done": 2}


@pytest.mark.mission("ENG-12", "TSK-ERR")
def test_errors_that_are_taken_back_are_taken_back_above() -> None:
    """A child that begins to count anew says by how much, and a parent never counts below none."""
    born = start(Again, "above:1:0", now=NOW, parent="above", depth=1)
    assert isinstance(born, Step)
    failed = step(Again, born.snapshot, Again.fail(), NOW)
    assert isinstance(failed, Step)
    anew = step(Again, failed.snapshot, Again.begin_anew(), NOW)
    assert isinstance(anew, Step)
    told = [
        effect.errors for effect in (*failed.effects, *anew.effects) if isinstance(effect, ReportToParent)
    ]
    assert told == [1, -1]
    parent = Journey(Crawl, context={"pages": 1})
    parent.send("begin")
    parent.send(child_changed("c", None, "loading", errors=2))
    parent.send(child_changed("c", "loading", "loading", errors=-1))
    assert parent.snapshot.counters["errors"] == 1
    parent.send(child_changed("c", "loading", "loading", errors=-3))
    assert parent.snapshot.counters["errors"] == 0


@pytest.mark.mission("ENG-12")
@pytest.mark.parametrize(
    ("counts", "code"),
    [
        ({"loading": -1}, "stale"),
        ({"new": -2, "done": 2}, "stale"),
        ({"loading": 0}, "stale"),
        ({"new": "-1"}, "payload"),
        ({"new": True}, "payload"),
        (["new"], "payload"),
    ],
)
def test_counts_that_cannot_be_are_refused(counts: Any, code: str) -> None:
    """Nothing changes: no count goes below zero, and only whole numbers count."""
    journey = Journey(Crawl, context={"pages": 1})
    journey.send("begin")
    assert journey.refused(children_changed(counts)).code == code
    assert journey.snapshot.children == {"new": 1}


@pytest.mark.mission("ENG-12")
@pytest.mark.parametrize(("depth", "number", "code"), [(2, 1, "depth"), (1, 5, "children")])
def test_nesting_and_number_of_children_have_a_limit(depth: int, number: int, code: str) -> None:
    """A chart that would grow beyond its limits is refused, and creates none."""
    begun = start(Crawl, now=NOW, context={"pages": number}, depth=depth)
    assert isinstance(begun, Step)
    refusal = step(Crawl, begun.snapshot, Crawl.begin(), NOW)
    assert isinstance(refusal, Refusal)
    assert refusal.code == code


@pytest.mark.mission("ENG-12")
def test_a_child_reports_its_status_to_its_parent() -> None:
    """A report says from where to where; a step that leaves the status as it is reports nothing."""

    class Child(Statechart):
        inner1, inner2 = State(), State()
        loading = State(inner1, inner2, initial=True)
        done = Final()

        on = inner1.to(inner2)
        trip = inner2.stay(counts="errors")
        finish = loading.to(done)

    begun = start(Child, "child", now=NOW, parent="parent")
    assert isinstance(begun, Step)
    reports, snapshot = list(begun.effects), begun.snapshot
    for event in (Child.on(), Child.trip(), Child.finish()):
        answer = step(Child, snapshot, event, NOW)
        assert isinstance(answer, Step)
        reports, snapshot = [*reports, *answer.effects], answer.snapshot
    told = [(r.parent, r.before, r.after, r.errors) for r in reports if isinstance(r, ReportToParent)]
    assert told == [
        ("parent", None, "loading", 0),
        ("parent", "loading", "loading", 1),
        ("parent", "loading", "done", 0),
    ]


class Document(Statechart, computed="first"):
    """A status that follows from what is known."""

    archived = State(where="archived_at != null")
    published = State(where="published_at != null")
    draft = State(where="true", initial=True)

    publish = (draft | published).computes(published, sets="published_at")
    retract = published.computes(draft, clears="published_at")
    archive = any_live.computes(archived, sets="archived_at", but=(archived,))
    wrong = draft.computes(published, do=put(title="x"))


@pytest.mark.mission("ENG-13")
def test_a_computed_status_follows_from_the_facts_at_every_step() -> None:
    """Events change facts, the first rule that holds is the status, and nobody can assign it."""
    journey = Journey(Document)
    assert journey.states == ("draft",)
    seen = []
    for event in ("publish", "retract", "publish", "archive"):
        journey.send(event)
        seen.append(journey.snapshot.state)
    assert seen == ["published", "draft", "published", "archived"]
    assert journey.snapshot.context["published_at"] == time_text(NOW)


@pytest.mark.mission("ENG-13")
def test_a_transition_that_would_not_land_where_it_says_is_refused() -> None:
    """The facts decide; a row that declares another status than they give changes nothing."""
    journey = Journey(Document)
    assert journey.refused("wrong").code == "landing"
    assert journey.snapshot.context == {}


@pytest.mark.mission("ENG-9", "ENG-10")
def test_ids_of_effects_are_the_same_when_a_step_is_repeated_and_never_twice() -> None:
    """Whoever receives effects twice can drop the second; no two effects of one life share an id."""
    journeys = [Journey(Paying), Journey(Paying)]
    for journey in journeys:
        journey.work_fails("busy")
        journey.send("stop")
        journey.send("restart")
        journey.work_done()
    ids = [[effect.id for effect in journey.effects] for journey in journeys]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == len(ids[0])
