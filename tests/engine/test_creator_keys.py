"""Keys and facts with `{creator}` or an owner: what is written under them is found under them."""

import pytest

from headway import No, Run, State, Statechart, View, person
from headway.actions import add, live
from headway.engine.facts import Facts, read_facts
from headway.engine.orders import Receipt
from headway.statechart.model import Fact
from headway.store.queries import WorkQuery
from headway.testing import FakeClock, Harness
from tests.refusals import answer_to

pytestmark = pytest.mark.mission("ENG-20", "ENG-1")

LIVES = "lives"


def alone(view: View) -> bool | No:
    """The owner has no other one."""
    return view.facts[LIVES] <= 1 or No("one at a time")


class Lone(Statechart, owner="{user}", facts=(Fact(name=LIVES, kind="instances", key=":{user}"),)):
    """One at a time for each user."""

    new, running = State(initial=True), State()
    begin = new.to(running, when=alone)


class Counted(
    Statechart,
    owner="{creator}",
    facts=(
        Fact(name=LIVES, kind="instances", key=":{creator}"),
        Fact(name="used", kind="counter", key="used:{creator}"),
    ),
):
    """Counts by its creator."""

    new = State(initial=True)
    busy = State(run=Run("work", affinity="of-{creator}"))
    use = new.stay(do=(add("used:{creator}"), live("of.{creator}")))
    work = new.to(busy)
    done = busy.on_done.to(new)


@pytest.mark.parametrize("spelling", ["ann ", "ann\u200b", "\uff41nn"])
async def test_a_limit_by_owner_holds_for_each_spelling(
    database: str, clock: FakeClock, spelling: str
) -> None:
    """An owner's instances are counted under one id, and a guard reads the count of that id."""
    async with Harness(Lone, database=database, clock=clock) as life:
        for name, user in (("one", "ann"), ("two", spelling)):
            await life.tenant.create(Lone, name, {"user": user})
        for name in ("one", "two"):
            assert not isinstance(await answer_to(life.tenant.send(name, Lone.begin())), Receipt)


async def test_templates_name_the_creator(database: str, clock: FakeClock) -> None:
    """Counters, facts, messages and work have the id of who created the instance in its place."""
    async with Harness(Counted, database=database, clock=clock) as life:
        for user in ("ann", "bob"):
            await life.tenant.create(Counted, user, by=person(user))
            await life.tenant.send(user, Counted.use(by=person("eve")))
        await life.tenant.send("ann", Counted.work(by=person("eve")))
        engine = life.node.engine
        snapshot = await engine.get("default", "ann")
        facts = await read_facts(engine.store, [Facts(Counted.chart, "default", snapshot, {})])
        assert facts.values == [{LIVES: 1, "used": 1}]
        [work] = await engine.store.work.page(WorkQuery(tenant="default"))
        assert work.affinity == "of-ann"
