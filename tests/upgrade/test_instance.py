"""One instance and a new version of its chart: what is carried over, and what needs a rule."""

import types
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from headway import (
    Ask,
    Event,
    Final,
    History,
    Parallel,
    Retry,
    State,
    Statechart,
    Step,
    Upgrade,
    any_live,
    explain,
    step,
)
from headway.actions import count
from headway.codec import decode, encode, from_data, replace, to_data
from headway.errors import DefinitionError, InputError
from headway.statechart.chart import Charted, chart_of
from headway.statechart.effects import RenewedAsk, StartWork
from headway.statechart.refusal import Refusal
from headway.statechart.snapshot import (
    Snapshot,
    claim_ask,
    person,
    timer_fired,
    work_done,
    work_failed,
    work_lost,
)
from headway.statechart.upgrade.assessment import Outlook, outlook
from headway.statechart.upgrade.instance import UpgradeRecord, restore_snapshot, watched_anew
from headway.testing import FakeClock
from tests.upgrade.lives import (
    ANN,
    BOB,
    EVE,
    Claim,
    Expense,
    Life,
    Renamed,
    Trap,
    Unruly,
    by_amount,
    in_cents,
)

pytestmark = pytest.mark.mission("ENG-19")


def seen(life: Life, new: Charted, **known: object) -> Outlook:
    """What an upgrade would make of a life now."""
    return outlook(chart_of(life.chart), chart_of(new), life.snapshot, life.clock.now(), **known)  # type: ignore[arg-type]


def moved(life: Life, new: Charted, **known: object) -> Step:
    """The step of an upgrade that is possible."""
    view = seen(life, new, **known)
    assert view.step is not None, view.problems
    assert view.possible, view.problems
    return view.step


def named(version: int, *, upgrade: Upgrade | None = None) -> dict[str, object]:
    """The settings of a version of the chart."""
    return {"name": "Part", "version": version, "upgrades": {1: upgrade} if upgrade else None}


def test_an_instance_on_which_nothing_bears_is_the_same() -> None:
    """But for the version and the line of history nothing changes, and the world hears nothing."""
    life = Life(Expense).send("submit", by=ANN).send("approve", by=BOB)
    view = seen(life, replaced(Expense, 2))
    assert view.fitness == "same"
    assert view.step is not None
    assert view.step.effects == ()
    assert replace(view.step.snapshot, version=1, seq=life.snapshot.seq) == life.snapshot
    [line] = view.step.history
    assert (line.event, line.before, line.after) == ("chart.upgrade", ("paying",), ("paying",))


def replaced(chart: Charted, version: int) -> Charted:
    """The same chart under another version."""
    ready = chart_of(chart)
    return type(ready)(replace(ready.model, version=version), ready.functions, ready.types)


def test_a_renamed_state_goes_on_with_all_it_holds() -> None:
    """The question keeps its id, times count from when it was put, and the next step is the new chart's."""
    life = Life(Expense).send("submit", by=ANN)
    begun = life.clock.now()
    life.clock.advance("5h")
    done = moved(life, Renamed)
    after = done.snapshot
    assert after.states == ("check",)
    assert after.since == {"check": begun}
    assert after.asks["check"].id == life.snapshot.asks["review"].id
    assert after.asks["check"].roles == ("manager", "auditor")
    dues = {timer.event: timer.due - begun for timer in after.timers.values()}
    assert dues == {
        "deadline.check": timedelta(days=3),
        "remind.check": timedelta(days=1),
        "escalate.check": timedelta(hours=36),
    }
    assert after.timers.keys() == life.snapshot.timers.keys()
    [renewed] = [effect for effect in done.effects if isinstance(effect, RenewedAsk)]
    assert (renewed.state, renewed.deadline, renewed.opened_at) == ("check", begun + timedelta(days=3), begun)
    assert isinstance(step(Renamed, after, Event("approve", by=BOB), life.clock.now()), Step)


def test_a_deadline_that_is_over_by_the_new_times_comes_at_once() -> None:
    """The time already waited counts, and nothing is due in the past."""

    class Hasty(Statechart, name="Expense", version=2):
        draft = State(initial=True)
        review = State(ask=Ask("manager", deadline="1h"))
        rejected = Final()
        submit = draft.to(review, by="employee")
        expire = review.on_deadline.to(rejected)
        leave = any_live.to(rejected, by="employee")

    life = Life(Expense).send("submit", by=ANN)
    life.clock.advance("5h")
    after = moved(life, Hasty).snapshot
    [(key, timer)] = after.timers.items()
    assert timer.due == life.clock.now() == after.asks["review"].deadline
    ended = step(Hasty, after, timer_fired(key), life.clock.now())
    assert isinstance(ended, Step)
    assert ended.snapshot.ended


def test_what_has_come_already_does_not_come_again() -> None:
    """Who was escalated to may still answer, and the escalation and the reminder that passed are over."""
    life = Life(Expense).send("submit", by=ANN)
    for _ in range(2):
        key, timer = min(life.snapshot.timers.items(), key=lambda each: each[1].due)
        life.clock.move_to(timer.due)
        life.snapshot = life.step(timer_fired(key)).snapshot
    after = moved(life, Renamed).snapshot
    assert after.asks["check"].roles == ("manager", "auditor", "director")
    assert sorted(timer.event for timer in after.timers.values()) == ["deadline.check"]


@pytest.mark.parametrize(("waited", "next_tick"), [("5m", "10m"), ("25m", "30m")])
def test_what_repeats_goes_on_in_the_new_rhythm(waited: str, next_tick: str) -> None:
    """The next tick is the next multiple of the new delay."""

    class Slow(Statechart, **named(1)):
        ticking, over = State(initial=True), Final()
        tick = ticking.every("1h").stay(counts="ticks")
        end = ticking.to(over)

    class Quick(Statechart, **named(2)):
        ticking, over = State(initial=True), Final()
        tick = ticking.every("10m").stay(counts="ticks")
        end = ticking.to(over)

    life = Life(Slow)
    begun = life.clock.now()
    life.clock.advance(waited)
    [timer] = moved(life, Quick).snapshot.timers.values()
    assert timer.due == FakeClock(begun).advance(next_tick)


def test_a_limit_for_a_whole_life_counts_from_its_birth() -> None:
    """A timer of any live state that is new counts from when the instance was created."""

    class Short(Statechart, name="Expense", version=2):
        draft, rejected = State(initial=True), Final()
        submit = draft.to(rejected, by="employee")
        over = any_live.after("10d").to(rejected)

    life = Life(Expense)
    born = life.clock.now()
    life.clock.advance("4d")
    [timer] = moved(life, Short, born=born).snapshot.timers.values()
    assert timer.due == born + timedelta(days=10)


def test_an_ask_that_is_new_is_put_now_and_one_that_is_gone_is_closed() -> None:
    """People get the time the chart gives them, from when they are asked."""

    class Asking(Statechart, name="Expense", version=2):
        draft = State(initial=True, ask=Ask("employee", deadline="1d"))
        review, rejected = State(), Final()
        submit = draft.to(review, by="employee")
        lapse = draft.on_deadline.to(rejected)
        refuse = review.to(rejected, by="manager")

    life = Life(Expense)
    life.clock.advance("9d")
    after = moved(life, Asking).snapshot
    assert after.asks["draft"].deadline == life.clock.now() + timedelta(days=1)
    assert after.asks["draft"].since == life.clock.now()
    life.send("submit", by=ANN)
    view = seen(life, Asking)
    assert "ask review: closed" in view.changes
    assert view.step is not None
    assert not view.step.snapshot.asks
    assert not view.step.snapshot.timers


def test_a_claim_outlives_an_upgrade_unless_a_role_is_taken_away() -> None:
    """Whoever holds the question goes on, but nobody holds what may not be theirs any more."""

    class Others(Statechart, name="Expense", version=2):
        draft = State(initial=True)
        review = State(ask=Ask("auditor", deadline="2d"))
        rejected = Final()
        submit = draft.to(review, by="employee")
        refuse = review.to(rejected)
        expire = review.on_deadline.to(rejected)

    life = Life(Expense).send("submit", by=ANN)
    ask = life.snapshot.asks["review"].id
    life.snapshot = life.step(claim_ask(ask, timedelta(hours=1), BOB)).snapshot
    assert moved(life, Renamed).snapshot.asks["check"].claimed_by == "bob"
    assert moved(life, Others).snapshot.asks["review"].claimed_by is None


def test_work_goes_on_and_its_failures_count() -> None:
    """An attempt under way ends under the new chart; earlier failures and losses of its host still count."""

    class Patient(Statechart, name="Expense", version=2):
        draft = State(initial=True)
        paying = State(run="pay", timeout="9m", retry=(Retry(5, on="busy"), Retry(2)))
        paid, rejected = Final(), Final()
        go = draft.to(paying)
        done = paying.on_done.to(paid)
        broken = paying.on_error.to(rejected)

    life = Life(Expense).send("submit", by=ANN).send("approve", by=BOB)
    work = life.snapshot.work["paying"]
    life.snapshot = life.step(work_failed(work.id, 1, "down")).snapshot
    life.snapshot = life.step(work_lost(work.id, 2)).snapshot
    done = moved(life, Patient)
    assert done.snapshot.work["paying"] == replace(life.snapshot.work["paying"], failures={"1": 1})
    assert done.snapshot.work["paying"].lost == 1
    assert not [effect for effect in done.effects if isinstance(effect, StartWork)]
    life.clock.advance("1h")
    ended = step(Patient, done.snapshot, work_done(work.id, 3), life.clock.now())
    assert isinstance(ended, Step)
    assert ended.snapshot.states == ("paid",)


def test_work_of_another_handler_needs_a_rule_and_begins_anew_with_it() -> None:
    """With the rule, a further attempt begins, and the one under way can finish nothing."""
    life = Life(Expense).send("submit", by=ANN).send("approve", by=BOB)
    view = seen(life, Unruly)
    assert view.fitness == "rule"
    assert 'restarts="paying"' in view.problems[0]
    ruled = with_rule(Unruly, Upgrade(states={"review": "check"}, restarts="paying"))
    done = moved(life, ruled)
    [begun] = [effect for effect in done.effects if isinstance(effect, StartWork)]
    assert (begun.handler, begun.attempt, begun.work) == ("pay_quickly", 2, life.snapshot.work["paying"].id)
    late = step(ruled, done.snapshot, work_done(begun.work, 1), life.clock.now())
    assert isinstance(late, Refusal)
    assert late.code == "stale"


def with_rule(chart: Charted, rule: Upgrade) -> Charted:
    """A chart that also says how instances of version 1 come to it."""
    body = {key: value for key, value in vars(chart).items() if not key.startswith("__") and key != "chart"}
    made: Any = types.new_class(
        "Expense",
        (Statechart,),
        {"name": "Expense", "version": 2, "upgrades": {1: rule}},
        lambda namespace: namespace.update(body),
    )
    return chart_of(made)


def test_a_state_that_is_gone_needs_a_rule() -> None:
    """The problem says what to write."""
    view = seen(Life(Expense).send("submit", by=ANN), Unruly)
    assert view.fitness == "rule"
    assert 'states={"review": ...}' in view.problems[0]


def test_nothing_is_stranded() -> None:
    """Where nothing can move an instance any more, it is refused; where nothing could before, it is not."""
    view = seen(Life(Expense), Trap)
    assert (view.fitness, view.possible) == ("stranded", False)
    assert "draft" in view.problems[0]

    class Stuck(Statechart, name="Expense"):
        draft, rejected = State(initial=True), Final()
        begun = State()
        hurry = begun.to(rejected, by="employee")

    assert seen(Life(Stuck), Trap).fitness == "same"


class Waits(Statechart, name="Post"):
    """Can be sent at any time."""

    draft, sent = State(initial=True), Final()
    send = draft.to(sent)


def newer(**rows: Any) -> Charted:
    """Version 2 of the same, with other rows."""
    made: Any = types.new_class(
        "Post",
        (Statechart,),
        {"name": "Post", "version": 2, "upgrades": {1: Upgrade()}},
        lambda namespace: namespace.update(rows),
    )
    return chart_of(made)


def posts(guard: str) -> dict[str, Charted]:
    """Charts whose only exits have this guard, by what they wait for."""
    found = {}
    for kind in ("event", "payload", "timer", "stay"):
        draft, sent = State(initial=True), Final()
        rows: dict[str, Any] = {"draft": draft, "sent": sent}
        if kind == "timer":
            rows["send"] = draft.after("1h").to(sent, when=guard)
        else:
            rows["send"] = draft.to(sent, when=guard, takes=Claim if kind == "payload" else None)
        if kind == "stay":
            rows["note"] = draft.stay(do=count("notes"))
        found[kind] = newer(**rows)
    return found


@pytest.mark.parametrize("kind", ["event", "payload", "timer", "stay"])
def test_exits_whose_guards_never_hold_strand_an_instance(kind: str) -> None:
    """Whatever would fire them: a row that can never be taken leads nowhere."""
    view = seen(Life(Waits), posts("1 == 2")[kind])
    assert (view.fitness, view.possible) == ("stranded", False)
    assert "draft" in view.problems[0]
    assert seen(Life(Waits), posts("1 == 1")[kind]).possible


def test_a_guard_that_contradicts_the_context_strands_where_nothing_changes_it() -> None:
    """A field that nothing can change any more decides; one that a row may change does not."""
    charts = posts("paid == true")
    life = Life(Waits, context={"paid": False})
    assert seen(life, charts["timer"]).fitness == "stranded"
    assert seen(life, charts["stay"]).possible
    assert seen(Life(Waits, context={"paid": True}), charts["timer"]).possible
    assert seen(life, posts("_event.data.paid == true")["timer"]).possible
    assert seen(life, posts("counters.errors == 0")["timer"]).possible


def test_a_function_chooses_the_state() -> None:
    """Where an instance goes may depend on the instance."""

    class Split(Statechart, name="Expense", version=2, upgrades={1: Upgrade(states={"review": by_amount})}):
        draft = State(initial=True)
        check = State(ask=Ask("manager", deadline="3d"))
        rejected = Final()
        submit = draft.to(check, by="employee")
        refuse = check.to(rejected, by="manager")
        expire = check.on_deadline.to(rejected)

    for amount, state in ((5, "draft"), (50, "check")):
        life = Life(Expense, {"amount": amount}).send("submit", by=ANN)
        assert moved(life, Split).snapshot.states == (state,)


def test_one_state_becomes_several_and_several_become_one() -> None:
    """A state may go to one in each region, and regions may come together again."""

    class Together(Statechart, **named(2, upgrade=Upgrade(states={"wait": ("law", "money")}))):
        law, law_done = State(), Final()
        money, money_done = State(), Final()
        lawyers, bankers = State(law, law_done), State(money, money_done)
        both = Parallel(lawyers, bankers)
        first, over = State(initial=True), Final()
        go = first.to(both)
        sign = law.to(law_done)
        pay = money.to(money_done)
        end = both.on_done.to(over)

    class Alone(Statechart, **named(1)):
        first, wait, over = State(initial=True), State(), Final()
        go = first.to(wait)
        end = wait.to(over)

    class Again(
        Statechart, name="Part", version=3, upgrades={2: Upgrade(states={"law": "wait", "money": ()})}
    ):
        first, wait, over = State(initial=True), State(), Final()
        go = first.to(wait)
        end = wait.to(over)

    life = Life(Alone).send("go")
    begun = life.snapshot.since["wait"]
    life.clock.advance("1h")
    apart = moved(life, Together).snapshot
    assert apart.states == ("law", "money")
    assert set(apart.since) == {"both", "lawyers", "law", "bankers", "money"}
    assert set(apart.since.values()) == {begun}
    whole = outlook(Together.chart, Again.chart, apart, life.clock.now())
    assert whole.step is not None
    assert whole.step.snapshot.states == ("wait",)


def test_states_that_cannot_be_active_together_need_a_rule() -> None:
    """A state that got states inside does not guess which one."""

    class Deeper(Statechart, **named(2)):
        one, two = State(), State()
        wait = State(one, two)
        first, over = State(initial=True), Final()
        go = first.to(wait)
        end = wait.to(over)

    class Flat(Statechart, **named(1)):
        first, wait, over = State(initial=True), State(), Final()
        go = first.to(wait)
        end = wait.to(over)

    assert "states inside" in seen(Life(Flat).send("go"), Deeper).problems[0]


def test_what_is_remembered_is_renamed() -> None:
    """A history state leads back to where the instance was, under its new name."""

    class First(Statechart, **named(1)):
        page, upload = State(), State()
        back = History()
        filling = State(page, upload, back)
        held, over = State(), Final()
        start_ = State(initial=True)
        go = start_.to(filling)
        on = page.to(upload)
        hold = filling.to(held)
        resume = held.to(back)
        end = any_live.to(over)

    class Second(Statechart, **named(2, upgrade=Upgrade(states={"upload": "attach"}))):
        page, attach = State(), State()
        back = History()
        filling = State(page, attach, back)
        held, over = State(), Final()
        start_ = State(initial=True)
        go = start_.to(filling)
        on = page.to(attach)
        hold = filling.to(held)
        resume = held.to(back)
        end = any_live.to(over)

    life = Life(First).send("go").send("on").send("hold")
    after = moved(life, Second).snapshot
    resumed = step(Second, after, Event("resume"), life.clock.now())
    assert isinstance(resumed, Step)
    assert resumed.snapshot.states == ("attach",)
    assert seen(life, replaced_rule(Second)).fitness == "rule"


def replaced_rule(chart: Charted) -> Charted:
    """The chart without a word about older versions."""
    ready = chart_of(chart)
    return type(ready)(replace(ready.model, upgrades=()), ready.functions, ready.types)


def test_four_eyes_hold_for_what_was_done_before() -> None:
    """Who did what only the new chart watches is known from the history; by the new names, too."""

    class Strict(Statechart, name="Expense", version=2, upgrades={1: Upgrade(renames={"submit": "hand_in"})}):
        draft = State(initial=True)
        review = State(ask=Ask("manager", deadline="2d"))
        paying = State(run="pay")
        paid, rejected = Final(), Final()
        hand_in = draft.to(review, by="employee")
        approve = review.to(paying, by="manager", distinct_from="hand_in")
        expire = review.on_deadline.to(rejected)
        done = paying.on_done.to(paid)
        broken = paying.on_error.to(rejected)

    assert watched_anew(Expense.chart, Strict.chart) == {"submit"}
    both = person("ann", "employee", "manager")
    life = Life(Expense).send("submit", by=both)
    after = moved(life, Strict, acted={"submit": ("ann",)}).snapshot
    refused = step(Strict, after, Event("approve", by=both), life.clock.now())
    assert isinstance(refused, Refusal)
    assert refused.code == "duty"
    assert isinstance(step(Strict, after, Event("approve", by=BOB), life.clock.now()), Step)


def test_votes_count_as_long_as_the_same_votes_are_wanted() -> None:
    """With another quorum people vote again, and nobody is kept from it by an old vote."""

    def voting(version: int, quorum: int) -> Charted:
        class Vote(Statechart, name="Part", version=version):
            open_, over = State(initial=True), Final()
            agree = open_.to(over, by="manager", quorum=quorum)

        return Vote

    life = Life(voting(1, 3)).send("agree", by=BOB).send("agree", by=EVE)
    assert moved(life, voting(2, 3)).snapshot.votes == life.snapshot.votes
    after = moved(life, voting(2, 2)).snapshot
    assert after.votes == {}
    assert isinstance(step(voting(2, 2), after, Event("agree", by=BOB), life.clock.now()), Step)


@dataclass
class Money:
    """What a claim is now."""

    cents: int


def claims(version: int, kind: object, rule: Upgrade | None = None) -> Charted:
    """A chart with a typed context."""

    class Typed(Statechart, name="Part", version=version, context=kind, upgrades={1: rule} if rule else None):
        open_, over = State(initial=True), Final()
        end = open_.to(over)

    return Typed


def test_a_context_that_does_not_fit_needs_a_rule() -> None:
    """Missing fields are filled in by a function, and no field is lost unless that is said."""
    life = Life(claims(1, Claim), {"amount": 3})
    assert "say context=" in seen(life, claims(2, Money)).problems[0]
    assert "drops=" in seen(life, claims(2, Money, Upgrade(context=in_cents))).problems[0]
    rule = Upgrade(context=in_cents, drops=("amount", "note"))
    view = seen(life, claims(2, Money, rule))
    assert view.changes == ("context: amount, cents, note",)
    assert view.step is not None
    assert view.step.snapshot.context == {"cents": 300}


def test_a_function_that_fails_or_writes_harms_nothing() -> None:
    """It gets a copy, and its failure is this instance's problem."""

    def spoil(old: Snapshot) -> dict[str, int]:
        old.context.clear()
        raise RuntimeError("no")

    life = Life(claims(1, Claim), {"amount": 3})
    view = seen(life, claims(2, Money, Upgrade(context=spoil)))
    assert "spoil failed: RuntimeError: no" in view.problems
    assert life.snapshot.context["amount"] == 3


def test_what_follows_by_itself_follows() -> None:
    """An eventless transition that is new is taken at the upgrade, with its own line of history."""

    class Quick(Statechart, name="Expense", version=2):
        draft, rejected = State(initial=True), Final()
        soon = draft.always.to(rejected, when="amount < 10")
        submit = draft.to(rejected, by="employee")

    done = moved(Life(Expense, {"amount": 5}), Quick)
    assert done.snapshot.ended
    assert [line.transition for line in done.history] == ["chart.upgrade", "soon"]
    assert not moved(Life(Expense, {"amount": 50}), Quick).snapshot.ended


def test_a_computed_status_is_computed_anew() -> None:
    """The new rules decide where an instance stands."""

    def computed(version: int, limit: int) -> Charted:
        class Status(Statechart, name="Part", version=version, computed="first"):
            large = State(where=f"amount > {limit}")
            small = State(where="true")
            grow = (large | small).computes(large, small)

        return Status

    life = Life(computed(1, 10), {"amount": 7})
    assert life.snapshot.states == ("small",)
    assert moved(life, computed(2, 5)).snapshot.states == ("large",)


@pytest.mark.parametrize(
    ("rule", "complaint"),
    [
        (Upgrade(states={"review": "chek"}), "did you mean check"),
        (Upgrade(states={"review": "paid"}), "an instance ends by an event"),
        (Upgrade(restarts="check"), "which has no run="),
        (Upgrade(restarts="paing"), "did you mean paying"),
        (Upgrade(renames={"submit": "sumbit"}), "did you mean submit"),
        (Upgrade(states=["review"]), "must be mappings"),  # type: ignore[arg-type]
        (Upgrade(context=lambda old: old), "needs a name"),
        ("review", "must map versions to Upgrade"),
    ],
)
def test_a_rule_is_checked_when_it_is_defined(rule: object, complaint: str) -> None:
    """A misspelt state, a state that ends lives, or a function without a name never reach an instance."""
    with pytest.raises(DefinitionError, match=complaint):
        with_rule(Unruly, rule)  # type: ignore[arg-type]


def test_a_rule_leads_from_an_older_version() -> None:
    """Nothing is upgraded to where it is."""
    with pytest.raises(DefinitionError, match="not a later one"):

        class Same(Statechart, version=2, upgrades={2: Upgrade()}):
            open_, over = State(initial=True), Final()
            end = open_.to(over)


def test_an_upgrade_is_taken_back_exactly() -> None:
    """Its line of history holds what it takes, also after it was stored."""
    life = Life(Expense, {"amount": 3}).send("submit", by=ANN)
    life.clock.advance("5h")
    done = moved(life, Renamed)
    line = decode(UpgradeRecord, encode(done.history[0].data))
    stored = from_data(Snapshot, to_data(done.snapshot))
    back = restore_snapshot(Expense.chart, Renamed.chart, stored, life.clock.now(), record=line)
    assert replace(back.snapshot, seq=life.snapshot.seq) == life.snapshot
    assert back.history[0].event == "chart.undo"


def test_work_that_an_upgrade_began_anew_is_begun_once_more_when_it_is_taken_back() -> None:
    """Attempts only count on, so that no worker of any of them can finish another."""
    life = Life(Expense).send("submit", by=ANN).send("approve", by=BOB)
    ruled = with_rule(Unruly, Upgrade(states={"review": "check"}, restarts="paying"))
    done = moved(life, ruled)
    record = decode(UpgradeRecord, encode(done.history[0].data))
    back = restore_snapshot(Expense.chart, chart_of(ruled), done.snapshot, life.clock.now(), record=record)
    [begun] = [effect for effect in back.effects if isinstance(effect, StartWork)]
    assert (begun.handler, begun.attempt) == ("pay", 3)


def test_only_living_instances_of_the_old_chart_are_upgraded() -> None:
    """Anything else is a mistake of the caller."""
    life = Life(Expense).send("withdraw", by=ANN)
    with pytest.raises(InputError):
        seen(life, Renamed)
    with pytest.raises(InputError):
        outlook(Renamed.chart, Renamed.chart, Life(Expense).snapshot, life.clock.now())


def test_who_is_upgraded_can_be_explained() -> None:
    """What the instance waits for is told by the new chart."""
    life = Life(Expense).send("submit", by=ANN)
    why = explain(Renamed, moved(life, Renamed).snapshot, life.clock.now())
    assert "manager or auditor" in str(why)
