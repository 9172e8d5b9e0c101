"""What has changed between two versions, in words, and what it means for those that live."""

from dataclasses import dataclass

import pytest

from headway import Ask, Final, Run, State, Statechart, Upgrade
from headway.statechart.chart import Charted, chart_of
from headway.statechart.model import Fact
from headway.statechart.upgrade.diff import Difference, differences
from tests.upgrade.lives import Claim, Expense, Renamed, Trap, Unruly, in_cents

pytestmark = pytest.mark.mission("ENG-19")


def found(old: Charted, new: Charted) -> dict[tuple[str, str, str], Difference]:
    """The differences by subject, change and name."""
    return {
        (each.subject, each.change, each.name): each for each in differences(chart_of(old), chart_of(new))
    }


def test_a_declared_mapping_is_followed() -> None:
    """What has another name is compared with what it was, and only what it changes is told."""
    changes = found(Expense, Renamed)
    assert changes["state", "renamed", "review"].said == "goes to check"
    assert changes["timer", "changed", "stale"].said == "after 30d → after 20d"
    assert (
        changes["transition", "changed", "approve"].because == "who did it before is taken from the history"
    )
    asks = [each.said for each in differences(Expense.chart, Renamed.chart) if each.subject == "ask"]
    assert asks == ["roles: manager → manager, auditor", "deadline: 2d → 3d"]
    assert {each.meaning for each in changes.values()} == {"adapts"}


def test_what_needs_a_rule_says_which() -> None:
    """A state that is gone, another handler, a state without a way out."""
    changes = found(Expense, Unruly)
    assert changes["state", "removed", "review"].meaning == "rule"
    assert changes["work", "changed", "paying"].because.endswith('restarts="paying"')
    assert changes["state", "added", "check"].meaning == "safe"
    trapped = found(Expense, Trap)
    assert trapped["transition", "removed", "submit"].because == "nothing leads out of draft any more"
    assert trapped["state", "removed", "paid"].meaning == "safe"


@dataclass
class Money:
    """What a claim is now."""

    cents: int
    note: str = ""


def version(number: int, kind: object, rule: Upgrade | None = None, *facts: Fact) -> Charted:
    """A version with a typed context and facts."""

    class Part(Statechart, version=number, context=kind, facts=facts, upgrades={1: rule} if rule else None):
        open_, over = State(initial=True), Final()
        end = open_.to(over)

    return Part


def test_fields_of_the_context_and_facts_are_compared() -> None:
    """A field that is required or gone needs a rule; with the rule it adapts. Facts are safe."""
    old = version(
        1, Claim, None, Fact(name="used", kind="counter", key="a"), Fact(name="old", kind="counter")
    )
    facts = (Fact(name="used", kind="counter", key="b"), Fact(name="new", kind="counter", key="c"))
    bare = found(old, version(2, Money, None, *facts))
    assert bare["context", "added", "cents"].meaning == bare["context", "removed", "amount"].meaning == "rule"
    ruled = found(old, version(2, Money, Upgrade(context=in_cents, drops="amount"), *facts))
    assert ruled["context", "added", "cents"].because == "filled in by in_cents"
    assert ruled["context", "removed", "amount"].meaning == "adapts"
    assert ruled["fact", "changed", "used"].said == "counter a → counter b"
    assert ("fact", "added", "new") in ruled
    assert ("fact", "removed", "old") in ruled


def test_every_part_of_a_state_and_a_row_is_compared() -> None:
    """Kinds, asks, work, guards, duties, actions and events, each with its own word."""

    class One(Statechart, name="Part"):
        a = State(initial=True, ask=Ask("clerk"))
        b = State(run=Run("x", timeout="1m"))
        c, over = State(), Final()
        go = a.to(b, by="clerk", when="n > 1")
        send = b.on_done.to(c)
        fail = b.on_error.to(over)
        end = c.to(over, by="clerk", quorum=2)

    class Two(Statechart, name="Part", version=2):
        inner = State()
        a = State(initial=True)
        b = State(run=Run("x", timeout="2m"))
        c, over = State(inner), Final()
        d = State(run="y")
        go = a.to(d, by="clerk", when="n > 2", emit="gone")
        send = b.on_done.to(c)
        fail = b.on_error.to(over) | d.on_error.to(over)
        end = c.to(over, by="clerk", quorum=3)
        late = b.after("1h").to(over)

    changes = found(One, Two)
    assert changes["ask", "removed", "a"].because == "open questions are closed"
    assert changes["work", "changed", "b"].said == "timeout: 1m → 2m"
    assert changes["state", "changed", "c"].meaning == "rule"
    assert changes["guard", "changed", "go"].said == "n > 1 → n > 2"
    assert changes["transition", "changed", "end"].because == "votes given so far are given back"
    assert changes["timer", "added", "late"].meaning == "adapts"
    assert ("transition", "added", "fail") in changes
    back = found(Two, One)
    assert back["ask", "added", "a"].because.startswith("put to people at the upgrade")
    assert back["timer", "removed", "late"].because == "timers that are set are cancelled"
