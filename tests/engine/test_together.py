"""Children that change in one transaction, and a parent that hears of all of them as of one change."""

from collections.abc import Sequence
from typing import Any

import pytest

from headway import Final, Refusal, State, Statechart, View, any_live
from headway.actions import count, spawn
from headway.codec import decode
from headway.engine.batch import Batch
from headway.engine.orders import Creation, Order, Receipt
from headway.statechart.snapshot import Event
from headway.testing import FakeClock, Harness

pytestmark = pytest.mark.mission("ENG-3", "ENG-12")

SIZE = 3


class Egg(Statechart):
    """Hatches, or cracks; one that rolls away and comes back has not changed."""

    warm, away = State(initial=True), State()
    hatched, cracked = Final(), Final()
    hatch = warm.to(hatched)
    crack = any_live.to(cracked, counts="errors")
    roll = warm.to(away)
    come_back = away.to(warm)


def as_many(_view: View) -> list[dict[str, object]]:
    """What a nest begins with."""
    return [{} for _ in range(SIZE)]


def endure(view: View) -> dict[str, Any]:
    """A nest bears one cracked egg and no more."""
    if view.counters["errors"] > 1:
        raise ValueError("two are cracked")
    return {"cracked": view.counters["errors"]}


def refuse(_view: View) -> None:
    """Nothing can be laid into a nest that is tipped."""
    raise ValueError("it is tipped")


class Nest(Statechart, children="together"):
    """Full when nothing is left to hatch."""

    brooding = State(initial=True, entry=spawn("Egg", make=as_many))
    tipped = State()
    full = Final()
    settle = brooding.on("child.changed").to(full, when="children.warm == 0", do=endure)
    hear = brooding.on("child.changed").stay(do=(count("heard"), endure))
    lay = brooding.stay(do=spawn("Egg"))
    look = brooding.stay(when="children.hatched == 2")
    tip = brooding.to(tipped, do=spawn("Egg"))
    drop = tipped.on("child.changed").stay(do=refuse)


class Tree(Statechart, children="together"):
    """Holds two nests, and hears of each when that hears of its eggs."""

    green = State(initial=True, entry=(spawn("Nest"), spawn("Nest")))
    bare = Final()
    fall = green.on("child.changed").to(bare, when="children.full == 1")


class Watch(Statechart):
    """Hears of each egg by itself."""

    waking = State(initial=True, entry=spawn("Egg", make=as_many))
    hear = waking.on("child.changed").stay(do=count("heard"))


class Hen(Statechart, children="together"):
    """Lays another egg when the first is hatched, and bears no news while she is away."""

    young = State(initial=True, entry=spawn("Egg"))
    old = State(entry=spawn("Egg"))
    away = State()
    age = young.on("child.changed").to(old, when="children.hatched == 1")
    wait = (young | old).on("child.changed").stay()
    leave = old.to(away, when="children.warm == 1")
    drop = away.on("child.changed").stay(do=refuse)


class Coop(Statechart, children="together"):
    """Hears of a hen that changes as soon as it hears of its own egg."""

    airy = State(initial=True, entry=spawn("Chick"))
    shut = Final()
    close = airy.on("child.changed").to(shut, when="children.grown == 1")
    hear = airy.on("child.changed").stay()
    look = airy.stay()


class Chick(Statechart, children="together"):
    """Not small any more when it hears of its egg, and grown when that is hatched."""

    small = State(initial=True, entry=spawn("Egg"))
    big = State()
    grown = Final()
    grow = small.on("child.changed").to(big)
    end = big.on("child.changed").to(grown, when="children.warm == 0")


def one_at_a_time(view: View) -> None:
    """No more than one egg is counted at a time."""
    if view.event.data.get("counts", {}).get("warm", 0) > 1:
        raise ValueError("too many at once")


class Careful(Statechart, children="together"):
    """Lays several eggs in one step, and counts them one by one."""

    counting = State(initial=True, entry=spawn("Egg", make=as_many))
    hear = counting.on("child.changed").stay(do=one_at_a_time)


class Rabbit(Statechart, children="together"):
    """Has another at each news of one."""

    awake = State(initial=True)
    breed = awake.stay(do=spawn("Egg"))
    again = awake.on("child.changed").stay(do=spawn("Egg"))


HATCH, CRACK, LOOK = Event("hatch"), Event("crack"), Event("look")


@pytest.fixture
def made(database: str, clock: FakeClock) -> Harness:
    """A node on each kind of store."""
    charts = (Egg, Nest, Tree, Watch, Hen, Coop, Chick, Rabbit, Careful)
    return Harness(*charts, database=database, clock=clock)


async def at_once(harness: Harness, *calls: tuple[str, Event | Creation]) -> Sequence[Any]:
    """Make calls in one transaction; the answers."""
    orders = [Order((harness.tenant.name, name), event) for name, event in calls]
    engine = harness.node.engine
    await engine.store.run(Batch(engine.charts, orders))
    for order in orders:
        assert order.error is None, order.error
    return [order.answer for order in orders]


async def heard(harness: Harness, name: str) -> list[Any]:
    """What an instance was told of its children."""
    lines = await harness.tenant.history(name)
    return [decode(object, line.data or "") for line in lines if line.event == "child.changed"]


async def test_several_children_are_one_change(made: Harness) -> None:
    """From their birth on: the parent has one line for all that happens in one transaction."""
    async with made as harness:
        tenant = harness.tenant
        await tenant.create(Nest, "n")
        assert await heard(harness, "n") == [
            {"counts": {"new": -3, "warm": 3}, "errors": 0, "children": {"warm": 3}, "error_count": 0}
        ]
        await at_once(harness, ("n:1:0", HATCH), ("n:1:1", CRACK))
        nest = await tenant.get("n")
        assert (nest.children, nest.counters) == (
            {"warm": 1, "hatched": 1, "cracked": 1},
            {"heard": 2, "errors": 1},
        )
        counts = {"warm": -2, "hatched": 1, "cracked": 1}
        now = {"children": nest.children, "error_count": 1}
        assert (await heard(harness, "n"))[1:] == [{"counts": counts, "errors": 1, **now}]
        await at_once(harness, ("n:1:2", HATCH))
        assert (await tenant.get("n")).state == "full"


async def test_by_default_each_child_is_told_by_itself(made: Harness) -> None:
    """Guards may count exactly, and actions may look at the change."""
    async with made as harness:
        await harness.tenant.create(Watch, "w")
        await at_once(harness, ("w:1:0", HATCH), ("w:1:1", HATCH))
        assert (await harness.tenant.get("w")).counters == {"heard": SIZE + 2}
        now = {"children": {"warm": 1, "hatched": 2}, "error_count": 0}
        assert (await heard(harness, "w"))[-1] == {"from": "warm", "to": "hatched", "errors": 0, **now}


async def test_what_is_sent_to_the_parent_comes_after_what_its_children_did_before(made: Harness) -> None:
    """A guard of the parent sees the calls before it, and none of those after it."""
    async with made as harness:
        await harness.tenant.create(Nest, "n")
        calls = [("n", LOOK), ("n:1:0", HATCH), ("n:1:1", HATCH), ("n", LOOK), ("n:1:2", HATCH), ("n", LOOK)]
        answers = await at_once(harness, *calls)
        kinds = [type(answer) for answer in answers]
        assert kinds == [Refusal, Receipt, Receipt, Receipt, Receipt, Refusal]


async def test_a_receipt_tells_where_a_parent_is_after_its_new_children_have_reported(
    made: Harness,
) -> None:
    """So that the next call can say what it expects."""
    async with made as harness:
        tenant = harness.tenant
        await tenant.create(Nest, "n")
        laid = (await tenant.send("n", Nest.lay())).unwrap()
        assert laid.seq == (await tenant.get("n")).seq
        (await tenant.send("n", Nest.lay(), expected_seq=laid.seq)).unwrap()


async def test_what_changes_back_is_no_change(made: Harness) -> None:
    """The parent hears of nothing when nothing is different in the end."""
    async with made as harness:
        await harness.tenant.create(Nest, "n")
        await at_once(harness, ("n:1:0", Event("roll")), ("n:1:0", Event("come_back")))
        assert len(await heard(harness, "n")) == 1


async def test_one_change_that_a_parent_cannot_take_does_not_harm_the_others(made: Harness) -> None:
    """All of them together it refuses; so each is told by itself, and only that one is refused."""
    async with made as harness:
        tenant = harness.tenant
        await tenant.create(Nest, "n")
        answers = await at_once(harness, ("n:1:0", CRACK), ("n:1:1", CRACK), ("n:1:2", HATCH))
        assert [type(answer) for answer in answers] == [Receipt, Refusal, Receipt]
        assert "the parent n refused it" in str(answers[1])
        nest = await tenant.get("n")
        assert (nest.children, nest.counters["errors"]) == ({"cracked": 1, "warm": 1, "hatched": 1}, 1)
        assert (await tenant.get("n:1:1")).state == "warm"
        assert len(await heard(harness, "n")) == SIZE


async def test_a_parent_that_hears_of_several_tells_its_own_parent(made: Harness) -> None:
    """What follows from one change follows from all of them."""
    async with made as harness:
        tenant = harness.tenant
        await tenant.create(Tree, "t")
        await at_once(harness, *((f"t:1:0:1:{number}", HATCH) for number in range(SIZE)))
        assert (await tenant.get("t:1:0")).state == "full"
        assert (await tenant.get("t")).state == "bare"


async def test_a_refused_call_reports_nothing(made: Harness) -> None:
    """What it would have led to is gone with it, and its neighbours' reports stay."""
    async with made as harness:
        tenant = harness.tenant
        await tenant.create(Tree, "t")
        eggs = [(f"t:1:0:1:{number}", HATCH) for number in range(SIZE)]
        *_, tipped = await at_once(harness, *eggs, ("t:1:0", LOOK), ("t:1:1", Event("tip")))
        assert "it is tipped" in str(tipped)
        assert (await tenant.get("t")).children == {"full": 1, "brooding": 1}
        assert (await tenant.get("t:1:1")).children == {"warm": SIZE}


async def test_children_born_of_a_report_are_heard_of_before_the_next_call(made: Harness) -> None:
    """So a guard counts them, and the call is not refused for what its neighbour has led to."""
    async with made as harness:
        tenant = harness.tenant
        await tenant.create(Hen, "h")
        _, left = await at_once(harness, ("h:1:0", HATCH), ("h", Event("leave")))
        assert (left.status, left.seq) == ("away", (await tenant.get("h")).seq)
        assert (await tenant.get("h")).children == {"hatched": 1, "warm": 1}


async def test_a_call_comes_after_all_that_those_further_down_did_before(made: Harness) -> None:
    """A grandparent has heard of its grandchildren when it is called, and its receipt tells of them."""
    async with made as harness:
        tenant = harness.tenant
        made_coop = (await tenant.create(Coop, "c")).unwrap()
        assert made_coop.seq == (await tenant.get("c")).seq
        _, looked = await at_once(harness, ("c:1:0:1:0", HATCH), ("c", LOOK))
        assert isinstance(looked, Refusal)
        assert (await tenant.get("c")).state == "shut"


async def test_who_is_told_one_by_one_hears_the_same(made: Harness) -> None:
    """A neighbour's children that cannot be told together do not harm who could be told either way."""
    async with made as harness:
        tenant = harness.tenant
        await tenant.create(Nest, "n")
        calls = (("n:1:0", CRACK), ("n:1:1", CRACK), ("c", Creation(chart="Coop")))
        answers = await at_once(harness, *calls)
        assert [type(answer) for answer in answers] == [Receipt, Refusal, Receipt]
        assert (await tenant.get("c")).children == {"big": 1}


async def test_children_without_end_are_refused(made: Harness) -> None:
    """Only the call that begins it is; its neighbours go on."""
    async with made as harness:
        tenant = harness.tenant
        await tenant.create(Rabbit, "r")
        await tenant.create(Watch, "w")
        bred, hatched = await at_once(harness, ("r", Event("breed")), ("w:1:0", HATCH))
        assert "without end" in str(bred)
        assert isinstance(hatched, Receipt)
        assert not (await tenant.get("r")).children


async def test_a_sum_that_one_call_leads_to_is_told_one_by_one_too(made: Harness) -> None:
    """A parent that refuses several at once, and would take each, takes each."""
    async with made as harness:
        (await harness.tenant.create(Careful, "c")).unwrap()
        assert (await harness.tenant.get("c")).children == {"warm": SIZE}
        assert len(await heard(harness, "c")) == SIZE
