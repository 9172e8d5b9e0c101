"""The checker: each finding on the smallest chart that has it, and its absence on the mended one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from headway import Ask, Final, History, Parallel, Retry, Run, State, Statechart, View, any_live, invariant
from headway.actions import count, put, spawn
from headway.codec import decode, encode
from headway.statechart.chart import Chart
from headway.statechart.check.check import check
from headway.statechart.check.findings import MEANINGS, Finding, Report
from headway.statechart.check.invariants import Explored
from headway.statechart.model import Raise, Send

pytestmark = pytest.mark.mission("ENG-18")
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "findings.md"


def ready(_view: View) -> bool:
    """Whether it is ready."""
    return True


def unready(_view: View) -> bool:
    """Whether it is not."""
    return True


class Clean(Statechart):
    """A chart without any finding."""

    asking = State(initial=True, ask=Ask("manager", deadline="2d", remind="1d"))
    paying = State(run=Run("pay", retry=Retry(3), timeout="1m", errors=("DECLINED",)))
    paid, refused = Final(), Final()

    approve = asking.to(paying, by="manager")
    refuse = asking.to(refused, by="manager")
    expire = asking.on_deadline.to(refused)
    done = paying.on_done.to(paid)
    broken = paying.on_error.to(refused)


class Misspelt(Statechart):
    """Has a role that stands once and is spelt almost like another."""

    asked = State(initial=True)
    bought, refused = Final(), Final()
    approve = asked.to(bought, by="manger")
    refuse = asked.to(refused, by="manager")
    postpone = asked.stay(by="manager")
    expire = asked.after("7d").to(refused)


class Sent(Statechart, owner="{creator}"):
    """Is ended by who sent it on, by nobody before: on each path there is somebody."""

    begun = State(initial=True)
    checked = State()
    done = Final()
    go = begun.to(checked, by="clerk")
    end = checked.to(done, by="{go.by}")
    skip = begun.to(done, by="boss")
    call_off = any_live.to(done, by="{go.by}")
    expire = any_live.after("7d").to(done)


class Unsent(Statechart):
    """Is ended by who sent it on, which is nobody after a short cut."""

    begun = State(initial=True)
    checked = State()
    done = Final()
    go = begun.to(checked, by="clerk")
    skip = begun.to(checked, by="boss")
    end = checked.to(done, by="{go.by}")
    expire = checked.after("7d").to(done)


class NeverSent(Statechart):
    """Is for the sender of an event that comes only afterwards, or a clerk."""

    begun = State(initial=True)
    checked = State()
    done = Final()
    end = begun.to(checked, by=("{late.by}", "clerk"))
    late = checked.to(done, by="manager")
    expire = any_live.after("7d").to(done)


class Myself(Statechart, owner="{creator}"):
    """The owner is the creator: one person, who cannot be somebody else."""

    begun = State(initial=True)
    checked = State()
    done = Final()
    go = begun.to(checked, by="{creator}")
    end = checked.to(done, by="{owner}", distinct_from="go")


class OneOwner(Statechart, owner="{creator}"):
    """Needs the votes of two owners."""

    begun = State(initial=True)
    done = Final()
    end = begun.to(done, by="{owner}", quorum=2)


class Senders(Statechart):
    """Is for who sent it on, and for somebody else."""

    begun = State(initial=True)
    checked = State()
    done = Final()
    go = begun.to(checked, by="clerk")
    end = checked.to(done, by="{go.by}", distinct_from="go")


class Foreign(Statechart, staff={"manager": 3}):
    """Has a role that its staff does not have."""

    asked = State(initial=True)
    bought, refused = Final(), Final()
    approve = asked.to(bought, by="clerk")
    refuse = asked.to(refused, by="manager")
    expire = asked.after("7d").to(refused)


class Island(Statechart):
    """Has a state that nothing leads to."""

    first = State(initial=True)
    island = State()
    end = Final()
    go = first.to(end)
    leave = island.to(end)


class Unheard(Statechart):
    """Has a row on an inner state's end that never comes."""

    first, second = State(initial=True), State()
    end = Final()
    go = first.to(second)
    on = second.to(end)
    never = second.to(end, event="other", when="In('first')")


class Stuck(Statechart):
    """Has a state that is no end and has no way on."""

    first, stuck = State(initial=True), State()
    end = Final()
    go = first.to(end)
    fall = first.to(stuck)
    sigh = stuck.stay()


class Choosing(Statechart):
    """Decides by two guards that exclude each other, which no checker can know."""

    first, choosing = State(initial=True), State()
    end = Final()
    go = first.to(choosing)
    one = choosing.always.to(end, when=ready)
    other = choosing.always.to(first, when=unready)


class HalfChoosing(Statechart):
    """Decides by one guard, and has no way on when that says no."""

    first, choosing = State(initial=True), State()
    end = Final()
    go = first.to(choosing)
    one = choosing.always.to(end, when=ready)


class Patient(Statechart):
    """Asks without a deadline."""

    first, asking = State(initial=True), State(ask=Ask("manager"))
    end = Final()
    go = first.to(asking)
    decide = asking.to(end, by="manager")


class Drafting(Statechart):
    """Waits for the event of a person without a deadline."""

    draft = State(initial=True)
    end = Final()
    submit = draft.to(end, by="employee")


class Clocked(Statechart):
    """Asks without a deadline, but a clock runs beside it."""

    asking = State(ask=Ask("manager"))
    ticking = State()
    form, clock = State(asking), State(ticking)
    both = Parallel(form, clock, initial=True)
    end = Final()
    decide = asking.to(end, by="manager")
    late = ticking.after("30m").to(end)


class Shrugging(Statechart):
    """Has a deadline only when a guard says yes."""

    asking = State(initial=True, ask=Ask("manager", deadline="1d"))
    end = Final()
    decide = asking.to(end, by="manager")
    expire = asking.on_deadline.to(end, when=ready)


class DeadlineToNowhere(Statechart):
    """Has a deadline that nothing takes."""

    asking = State(initial=True, ask=Ask("manager", deadline="1d"))
    end = Final()
    decide = asking.to(end, by="manager")


class Deaf(Statechart):
    """Asks one role and takes the answer of another."""

    asking = State(initial=True, ask=Ask("manager", deadline="1d"))
    end = Final()
    decide = asking.to(end, by="employee")
    expire = asking.on_deadline.to(end)


class Trap(Statechart):
    """Can go round for ever without ever ending."""

    first, ping, pong = State(initial=True), State(), State()
    end = Final()
    go = first.to(end)
    slip = first.to(ping)
    hit = ping.to(pong)
    back = pong.to(ping)


class Unrecovered(Statechart):
    """Handles one error code of several."""

    first = State(initial=True)
    paying = State(run=Run("pay", errors=("DECLINED", "FRAUD")))
    end = Final()
    go = first.to(paying)
    done = paying.on_done.to(end)
    declined = paying.on_error("DECLINED").to(end)


class RecoveredAround(Statechart):
    """Handles all error codes in the state around."""

    paying = State(run=Run("pay", errors=("DECLINED",)))
    busy = State(paying, initial=True)
    end = Final()
    done = paying.on_done.to(end)
    broken = busy.on("error").to(end)


class Fruitless(Statechart):
    """Does not take the result of its work."""

    paying = State(initial=True, run="pay")
    end = Final()
    broken = paying.on_error.to(end)


class EndedByEvent(Statechart):
    """Takes an event by which the handler ends its work."""

    paying = State(initial=True, run="pay")
    end = Final()
    broken = paying.on_error.to(end)
    paid = paying.to(end)


class Forever(Statechart):
    """Retries without a limit."""

    paying = State(initial=True, run=Run("pay", retry=Retry(times=None)))
    end = Final()
    done = paying.on_done.to(end)


class ForeverInTime(Statechart):
    """Retries without a limit, but not longer than an hour."""

    paying = State(initial=True, run=Run("pay", retry=Retry(times=None)))
    end = Final()
    done = paying.on_done.to(end)
    late = paying.after("1h").to(end)


class Treadmill(Statechart):
    """Fails, waits and tries again, without any limit."""

    paying, waiting = State(initial=True, run="pay"), State()
    end = Final()
    done = paying.on_done.to(end)
    broken = paying.on_error.to(waiting)
    again = waiting.after("5m").to(paying)


class Counted(Statechart):
    """Fails, waits and tries again, three times."""

    paying, waiting = State(initial=True, run="pay"), State()
    end = Final()
    done = paying.on_done.to(end)
    give_up = paying.on_error.to(end, when="counters.tries >= 3")
    broken = paying.on_error.to(waiting, do=count("tries"))
    again = waiting.after("5m").to(paying)


class TreadmillInTime(Statechart):
    """Fails, waits and tries again, as long as the state around it lasts."""

    paying, waiting = State(run="pay"), State()
    trying = State(paying, waiting, initial=True)
    end = Final()
    done = paying.on_done.to(end)
    broken = paying.on_error.to(waiting)
    again = waiting.after("5m").to(paying)
    late = trying.after("1d").to(end)


class Spinning(Statechart):
    """Two states lead to each other without an event."""

    first, ping, pong = State(initial=True), State(), State()
    end = Final()
    go = first.to(ping)
    leave = first.to(end)
    hit = ping.always.to(pong)
    back = pong.always.to(ping)


class Shadowed(Statechart):
    """Has a row behind one that takes everything."""

    first = State(initial=True)
    one, other = Final(), Final()
    go = first.to(one) | first.to(other, by="manager")


class Ordered(Statechart):
    """Has a special row before a general one."""

    first = State(initial=True)
    one, other = Final(), Final()
    go = first.to(other, by="manager") | first.to(one)


class GeneralFirst(Statechart):
    """Has the general error before the special one."""

    paying = State(initial=True, run="pay")
    end, declined = Final(), Final()
    done = paying.on_done.to(end)
    broken = paying.on_error.to(end)
    refused = paying.on_error("DECLINED").to(declined)


class Shared(Statechart):
    """Two rows without guards compete for those who have a role of both."""

    first = State(initial=True)
    one, other = Final(), Final()
    go = first.to(one, by=("user", "admin")) | first.to(other, by=("admin", "boss"))
    give_up = first.after("1d").to(one)


class LostEnd(Statechart):
    """Has an end that nothing leads to."""

    first = State(initial=True)
    end, lost = Final(), Final()
    go = first.to(end)


class Endless(Statechart):
    """Has no end."""

    day, night = State(initial=True), State()
    dusk = day.to(night)
    dawn = night.to(day)


class Uncancellable(Statechart, cancel="withdraw"):
    """Cannot be cancelled while it pays."""

    draft, paying = State(initial=True), State(run="pay")
    end, gone = Final(), Final()
    submit = draft.to(paying)
    done = paying.on_done.to(end)
    broken = paying.on_error.to(gone)
    withdraw = draft.to(gone)


class Cancellable(Uncancellable, cancel="stop"):
    """Can be cancelled everywhere."""

    stop = any_live.to(Uncancellable.gone)


class SmallBoard(Statechart, staff={"manager": 2}):
    """Needs three votes of two managers."""

    voting = State(initial=True)
    end = Final()
    approve = voting.to(end, by="manager", quorum=3)
    expire = voting.after("1d").to(end)


class Board(Statechart, staff={"manager": 3}):
    """Needs three votes of three managers."""

    voting = State(initial=True)
    end = Final()
    approve = voting.to(end, by="manager", quorum=3)
    expire = voting.after("1d").to(end)


class Alone(Statechart, staff={"manager": 1}):
    """Has one manager, who may not approve what that manager submitted."""

    draft, review = State(initial=True), State()
    end = Final()
    submit = draft.to(review, by=("employee", "manager"))
    approve = review.to(end, by="manager", distinct_from="submit")


class Uncounted(Statechart):
    """Needs two people of one role, and nobody has said how many there are."""

    draft, review = State(initial=True), State()
    end = Final()
    submit = draft.to(review, by="manager")
    approve = review.to(end, by="manager", distinct_from="submit")


class OnlyAgents(Statechart, staff={"reviewer": 0}):
    """Has only agents for what no agent may do."""

    review = State(initial=True)
    end = Final()
    approve = review.to(end, by="reviewer", no_agent=True)
    expire = review.after("1d").to(end)


class Gap(Statechart, computed="first"):
    """Has no status for what is stopped."""

    fresh = State(where="!stopped_at && !done_at", initial=True)
    done = State(where="done_at")
    finish = fresh.computes(done, sets="done_at")
    stop = fresh.computes(done, sets="stopped_at")
    reopen = done.computes(fresh, clears="done_at")


class Total(Statechart, computed="first"):
    """Has a status for everything."""

    stopped = State(where="stopped_at")
    done = State(where="done_at")
    fresh = State(where="true", initial=True)
    finish = fresh.computes(done, sets="done_at")
    stop = fresh.computes(stopped, sets="stopped_at")
    reopen = (done | stopped).computes(fresh, clears=("done_at", "stopped_at"))


class Overlap(Statechart, computed="exclusive"):
    """Is both done and stopped."""

    fresh = State(where="!stopped_at && !done_at", initial=True)
    done = State(where="done_at")
    stopped = State(where="stopped_at")
    finish = fresh.computes(done, sets="done_at")
    halt = fresh.computes(stopped, sets="stopped_at")
    stop = done.computes(done, sets="stopped_at")
    reopen = (done | stopped).computes(fresh, clears=("done_at", "stopped_at"))


class Exclusive(Statechart, computed="exclusive"):
    """Is one thing at a time; the kinds exclude each other because a name has one value."""

    fresh = State(where="kind != 'a' && kind != 'b'", initial=True)
    a = State(where="kind == 'a'")
    b = State(where="kind == 'b'")
    to_a = fresh.computes(a, do=put(kind="a"))
    to_b = a.computes(b, do=put(kind="b"))
    reopen = b.computes(fresh, clears="kind")


class Hidden(Statechart, computed="first"):
    """Has a rule behind one that holds whenever it does."""

    done = State(where="done_at")
    both = State(where="done_at && stopped_at")
    fresh = State(where="true", initial=True)
    finish = fresh.computes(done, sets="done_at")
    stop = done.computes(done, sets="stopped_at")
    reopen = done.computes(fresh, clears="done_at")


class WrongLanding(Statechart, computed="first"):
    """Stops what is done, and says that it is stopped then."""

    done = State(where="done_at")
    stopped = State(where="stopped_at")
    fresh = State(where="true", initial=True)
    finish = fresh.computes(done, sets="done_at")
    halt = fresh.computes(stopped, sets="stopped_at")
    stop = done.computes(stopped, sets="stopped_at")
    reopen = (done | stopped).computes(fresh, clears=("done_at", "stopped_at"))


class Retrying(Statechart, computed="first"):
    """Fails for good once its counter has reached a limit that the context gives."""

    failed = State(where="failed_at && counters.tries >= limit")
    waiting = State(where="failed_at")
    fresh = State(where="true", initial=True)
    fail = fresh.computes(waiting, failed, do=count("tries"), sets="failed_at")
    again = waiting.computes(fresh, clears="failed_at")
    reset = failed.computes(fresh, clears="failed_at", event="reset")


class OnlyWaiting(Statechart, computed="first"):
    """Forgets that the counter can reach its limit."""

    failed = State(where="failed_at && counters.tries > 2")
    waiting = State(where="failed_at")
    fresh = State(where="true", initial=True)
    fail = fresh.computes(waiting, do=count("tries"), sets="failed_at")
    again = (waiting | failed).computes(fresh, clears="failed_at")


class Forgetful(Statechart):
    """Comes back by a history state that does not say where to go the first time."""

    one, two, memory = State(), State(), History()
    work = State(one, two, memory)
    away = State(initial=True)
    end = Final()
    enter = away.to(memory)
    on = one.to(two)
    leave = work.to(away)
    stop = work.to(end)


class Mindful(Statechart):
    """Comes back by a history state with a default."""

    one, two = State(), State()
    memory = History(otherwise=two)
    work = State(one, two, memory)
    away = State(initial=True)
    end = Final()
    enter = away.to(memory)
    back, on = two.to(one), one.to(two)
    leave = work.to(away)
    stop = work.to(end)


class Broken(Statechart):
    """Promises what it does not keep."""

    draft, review = State(initial=True), State()
    paid = Final()
    submit = draft.to(review)
    approve = review.to(paid)
    skip = draft.to(paid)

    @invariant("what is paid was approved")
    def approved(view: Explored) -> bool:  # noqa: N805 - an invariant sees a configuration, not an instance
        """What is paid was approved."""
        return view.fired("approve") or not view.in_state("paid")


class Kept(Statechart):
    """Promises what it keeps."""

    draft, review = State(initial=True), State()
    paid = Final()
    submit = draft.to(review)
    back = review.to(draft)
    approve = review.to(paid)

    @invariant("what is paid was approved")
    def approved(view: Explored) -> bool:  # noqa: N805 - an invariant sees a configuration, not an instance
        """What is paid was approved."""
        return view.fired("approve") == view.ended


class Raising(Kept):
    """Has an invariant that cannot be evaluated."""

    @invariant("nobody knows")
    def unknown(view: Explored) -> bool:  # noqa: N805 - an invariant sees a configuration, not an instance
        """Divides by zero once it is paid."""
        return 1 / (not view.ended) > 0


class Stale(Statechart, accepts={"dead-end:first": "it is the end"}):
    """Accepts what it does not have."""

    first = State(initial=True)
    end = Final()
    go = first.to(end)


class Accepting(Statechart, accepts={"wait-without-deadline:draft": "drafts may rest"}):
    """Accepts what it has."""

    draft = State(initial=True)
    end = Final()
    submit = draft.to(end, by="employee")


class Parent(Statechart):
    """Waits for its children."""

    first, waiting = State(initial=True), State()
    end = Final()
    begin = first.to(waiting, do=spawn("child"))
    rolled_up = waiting.on("child.changed").to(end, when=ready)


class SentLater(Statechart):
    """Waits for a person until an event that it sends itself."""

    asking = State(initial=True, ask=Ask("manager"), entry=Send(event="late", delay=5_000))
    end = Final()
    decide = asking.to(end, by="manager")
    late = asking.to(end)


class Sorting(Statechart):
    """Goes on by one of two guards that exclude each other once its work is done."""

    working = State(initial=True, run="sort")
    end, other = Final(), Final()
    one = working.on_done.to(end, when=ready)
    two = working.on_done.to(other, when=unready)
    broken = working.on_error.to(end)


class Reminding(Statechart):
    """Asks anew every day until somebody answers, which ends each single wait."""

    asking = State(initial=True, ask=Ask("manager", deadline="1d"))
    end = Final()
    decide = asking.to(end, by="manager")
    again = asking.on_deadline.to(asking, when=ready)
    give_up = asking.on_deadline.to(end)


class Excluding(Statechart):
    """Ends its wait by one of two guards that exclude each other."""

    asking = State(initial=True, ask=Ask("manager", deadline="1d"))
    end, other = Final(), Final()
    decide = asking.to(end, by="manager")
    one = asking.on_deadline.to(end, when=ready)
    two = asking.on_deadline.to(other, when=unready)


class AskingAnew(Statechart):
    """Ends each single wait, but asks again for ever."""

    asking = State(initial=True, ask=Ask("manager", deadline="1d"))
    end = Final()
    decide = asking.to(end, by="manager")
    again = asking.on_deadline.to(asking)


class Sized(Statechart, computed="first"):
    """Has a status for a number that lies beside the one it is compared with."""

    big = State(where="size > 3")
    small = State(where="size < 3")
    exact = State(where="true", initial=True)
    look = any_live.stay()


class GuardedCircle(Statechart):
    """Two states lead to each other without an event, as long as a guard says yes."""

    first, ping, pong = State(initial=True), State(), State()
    end = Final()
    go = first.to(ping)
    hit = ping.always.to(pong, when=ready)
    back = pong.always.to(ping)
    leave = ping.to(end)


class Hesitant(Statechart):
    """Takes the result of its work only when a guard says yes."""

    paying = State(initial=True, run="pay", timeout="1m")
    end = Final()
    done = paying.on_done.to(end, when=ready)
    broken = paying.on_error.to(end)


class HalfRecovered(Statechart):
    """Takes the errors of its work only when a guard says yes."""

    paying = State(initial=True, run="pay")
    end = Final()
    done = paying.on_done.to(end)
    broken = paying.on_error.to(end, when=ready)


class SelfStarting(Statechart):
    """Moves on by itself at the start."""

    first, second = State(initial=True), State()
    end = Final()
    go = first.always.to(second)
    leave = second.after("1d").to(end)


class Echoing(Statechart):
    """Has a row that raises its own event again."""

    first = State(initial=True)
    end = Final()
    echo = first.stay(event="ping", do=Raise(event="ping"))
    leave = first.to(end)


class BornEchoing(Statechart):
    """Raises an event without end already at the start."""

    first = State(initial=True, entry=Raise(event="ping"))
    end = Final()
    echo = first.to(first, event="ping")
    leave = first.to(end)


class GuardedByStates(Statechart):
    """Goes round in a circle whose guards always hold."""

    first, ping, pong = State(initial=True), State(), State()
    end = Final()
    go = first.to(ping)
    leave = first.to(end)
    hit = ping.always.to(pong, when="In('ping')")
    back = pong.always.to(ping, when="In('pong')")


class Case(NamedTuple):
    """A finding, a chart that has it, where and how, and one that has not."""

    finding: str
    bad: type[Statechart]
    place: str
    path: tuple[str, ...]
    good: type[Statechart] = Clean
    severity: str = "error"

    def __repr__(self) -> str:
        return f"{self.finding}-{self.bad.__name__}"


UNTAKEN = "work of paying fails: FRAUD"
CASES = [
    Case("unreachable-state", Island, "island", (), Sized),
    Case("unknown-role", Misspelt, "asked", (), severity="warning"),
    Case("unknown-role", Foreign, "asked", (), severity="warning"),
    Case("unreachable-transition", Unheard, "never", ("go",), Forgetful),
    Case("dead-end", Stuck, "stuck", ("fall",), Choosing),
    Case("dead-end", HalfChoosing, "choosing", ("go (not ready)",), Parent),
    Case("dead-end", Hesitant, "paying", ("work of paying is done (not ready)",)),
    Case("dead-end", HalfRecovered, "paying", ("work of paying fails: lost (not ready)",)),
    Case("wait-without-deadline", Patient, "asking", ("go",), Clocked),
    Case("wait-without-deadline", Drafting, "draft", (), SentLater, "warning"),
    Case("wait-without-deadline", Shrugging, "asking", ("deadline of asking (not ready)",), AskingAnew),
    Case("wait-without-way-out", DeadlineToNowhere, "asking", ()),
    Case("wait-without-way-out", Deaf, "asking", ()),
    Case("wait-without-way-out", Trap, "ping", ("slip",), Endless),
    Case(
        "error-without-recovery",
        Unrecovered,
        "paying",
        ("go", "work of paying fails: FRAUD"),
        RecoveredAround,
    ),
    Case("work-without-outcome", Fruitless, "paying", (), EndedByEvent),
    Case("unbounded-retry", Forever, "paying", (), ForeverInTime),
    Case("unbounded-retry", AskingAnew, "asking", (), Reminding, "warning"),
    Case("unbounded-retry", Treadmill, "broken", (), Counted),
    Case("unbounded-retry", Treadmill, "paying", (), TreadmillInTime),
    Case("eventless-loop", Spinning, "ping", ("go",), Choosing),
    Case("eventless-loop", Echoing, "echo", ("ping",), GuardedCircle),
    Case("eventless-loop", BornEchoing, "echo", ()),
    Case("eventless-loop", GuardedByStates, "hit", ("go",)),
    Case("ambiguous-transitions", Shadowed, "first", (), Ordered),
    Case("ambiguous-transitions", GeneralFirst, "refused", (), Unrecovered),
    Case("ambiguous-transitions", Shared, "go", (), Ordered, "warning"),
    Case("final-never-reached", LostEnd, "lost", ()),
    Case("no-final", Endless, "", (), Clean, "warning"),
    Case("cannot-cancel", Uncancellable, "paying", ("submit",), Cancellable),
    Case("duty-deadlock", SmallBoard, "approve", (), Board),
    Case("duty-deadlock", Alone, "approve", ("submit by manager",), Board),
    Case("duty-deadlock", Uncounted, "approve", ("submit by manager",), Board, "warning"),
    Case("nobody-named", Unsent, "end", ("skip by boss",), Sent, "warning"),
    Case("nobody-named", NeverSent, "end", (), Sent),
    Case("duty-deadlock", Myself, "end", ("go by system",), Sent),
    Case("duty-deadlock", OneOwner, "end", (), Sent),
    Case("duty-deadlock", Senders, "end", ("go by clerk",), Sent),
    Case("duty-deadlock", OnlyAgents, "approve", (), Board),
    Case("computed-gap", Gap, "stop", ("stop",), Total),
    Case("computed-overlap", Overlap, "stopped", ("finish", "stop"), Exclusive),
    Case("computed-overlap", Hidden, "both", (), Total),
    Case("computed-wrong-landing", WrongLanding, "stop", ("finish", "stop"), Retrying),
    Case("computed-wrong-landing", OnlyWaiting, "fail", ("fail", "again", "fail", "again", "fail"), Retrying),
    Case("history-without-default", Forgetful, "memory", (), Mindful, "warning"),
    Case("invariant-violated", Broken, "paid", ("skip",), Kept),
    Case("invariant-failed", Raising, "unknown", ("submit", "approve"), Kept),
    Case("acceptance-unused", Stale, "first", (), Accepting, "warning"),
]


def found(report: Report, finding: str) -> list[Finding]:
    """The findings of one id."""
    return [each for each in report.findings if each.id == finding]


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_a_flaw_is_found_where_it_is_with_the_shortest_path(case: Case) -> None:
    """A chart with a flaw gets its finding, at its place, with its severity and the shortest path to it."""
    matching = [
        each for each in found(check(case.bad), case.finding) if case.place in {each.state, each.transition}
    ]
    assert [(each.severity, each.path) for each in matching] == [(case.severity, case.path)]


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_a_chart_without_the_flaw_does_not_get_the_finding(case: Case) -> None:
    """The mended chart is not accused."""
    assert found(check(case.good), case.finding) == []


SOUND = [
    Clean,
    Clocked,
    Choosing,
    Parent,
    Counted,
    TreadmillInTime,
    Board,
    Kept,
    RecoveredAround,
    EndedByEvent,
    ForeverInTime,
    Mindful,
    Cancellable,
    SentLater,
    Sorting,
    Reminding,
    Excluding,
    GuardedCircle,
    SelfStarting,
]


@pytest.mark.parametrize("chart", SOUND)
def test_a_sound_chart_has_no_findings_at_all(chart: type[Statechart]) -> None:
    """No false alarm of any kind on charts that are in order."""
    accidental = {"unreachable-transition"} if chart is Cancellable else set()
    assert [str(each) for each in check(chart).findings if each.id not in accidental] == []


def test_each_flaw_alone_fails_only_for_itself() -> None:
    """A flawed chart is accused of its flaw and of nothing that follows from it."""
    for case in CASES:
        if case.severity == "error":
            ids = {each.id for each in check(case.bad).errors}
            assert ids == {case.finding}, case


def test_missing_handlers_are_found_only_when_the_handlers_are_known() -> None:
    """Who does not say which handlers exist is not accused of missing one."""
    assert found(check(Clean), "missing-handler") == []
    assert found(check(Clean, {"pay"}), "missing-handler") == []
    (missing,) = found(check(Clean, ()), "missing-handler")
    assert (missing.state, missing.path) == ("paying", ("approve by manager",))


def test_a_report_has_the_line_that_accepts_its_findings() -> None:
    """It names what was found and what is accepted already; pasted into the chart, nothing is left."""
    line = check(Stale).acceptance
    assert line == ""

    class Resting(Statechart, accepts={"no-final": "it is a register"}):
        draft = State(initial=True, ask=Ask("author"))
        kept = State()
        keep = draft.to(kept, by="author")
        back = kept.to(draft)

    report = check(Resting)
    assert report.findings
    assert report.acceptance.startswith('accepts={"no-final":"it is a register","')
    accepts = json.loads(report.acceptance.removeprefix("accepts="))

    class Meant(Statechart, accepts=accepts):
        draft = State(initial=True, ask=Ask("author"))
        kept = State()
        keep = draft.to(kept, by="author")
        back = kept.to(draft)

    assert check(Meant).findings == ()
    assert check(Meant).acceptance == ""


def test_an_accepted_finding_is_listed_with_its_reason() -> None:
    """An acceptance takes a finding out of the report's verdict but not out of the report."""
    report = check(Accepting)
    assert report.findings == ()
    assert [(each.finding.id, each.because) for each in report.accepted] == [
        ("wait-without-deadline", "drafts may rest")
    ]


def test_warnings_do_not_fail_a_check_and_errors_do() -> None:
    """A report is ok when it has no error."""
    assert check(Drafting).ok
    assert not check(Patient).ok


def test_errors_come_first() -> None:
    """What fails the check stands at the top."""
    severities = [each.severity for each in check(Uncancellable).findings]
    assert severities == sorted(severities)


def test_a_report_survives_json() -> None:
    """A report is plain data: written and read back it is the same."""
    report = check(Patient)
    assert decode(Report, encode(report)) == report


def test_a_finding_reads_as_one_line() -> None:
    """The text of a finding names severity, id, place, reason and path."""
    (finding,) = check(Patient).findings
    assert str(finding) == (
        "error wait-without-deadline at asking: asking waits for manager and no timer ends the wait: "
        "when nobody acts, the instance stays there for ever (path: go)"
    )


def chain(length: int, width: int = 1) -> Chart:
    """A chart with many states: each asks, works, and can go back."""
    body: dict[str, object] = {}
    end = body["end"] = Final()
    states = [State(initial=index == 0, run="work", timeout="1m") for index in range(length)]
    for index, state in enumerate(states):
        body[f"s{index}"] = state
        following = states[index + 1] if index + 1 < length else end
        body[f"done{index}"] = state.on_done.to(following)
        body[f"broken{index}"] = state.on_error.to(end)
        body[f"late{index}"] = state.after("1h").to(end)
        for step in range(width):
            body[f"back{index}_{step}"] = state.to(states[index // (step + 2)], by="admin")
    chain: type[Statechart] = type("Chain", (Statechart,), body)
    return chain.chart


def test_a_chart_of_forty_states_is_checked_in_full() -> None:
    """Size alone does not make the checker give up."""
    report = check(chain(40, 3))
    assert (report.complete, report.configurations) == (True, 41)
    assert report.findings == ()


def test_beyond_the_limit_only_what_the_graph_shows_is_claimed() -> None:
    """An exploration cut short accuses no state of being out of reach that the graph connects."""
    report = check(chain(40), limit=5)
    assert not report.complete
    assert report.findings == ()
    assert [each.state for each in check(Island, limit=1).errors] == ["island"]


def test_every_finding_has_its_section_and_no_section_is_stale() -> None:
    """The reference explains each finding the checker can make, and no other."""
    sections = re.findall(r"^## `([a-z-]+)`$", PAGE.read_text(), flags=re.MULTILINE)
    assert sections == sorted(MEANINGS)


def test_every_finding_has_a_case() -> None:
    """No finding is without a chart that has it."""
    elsewhere = {"missing-handler", "invariant-unproved"}
    assert {case.finding for case in CASES} | elsewhere == set(MEANINGS)
