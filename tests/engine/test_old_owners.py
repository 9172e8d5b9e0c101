"""Instances that were stored before their snapshots held the owner: the row's owner is theirs."""

import pytest

from headway import Final, State, Statechart, person
from headway.codec import decode, encode, replace
from headway.engine.facts import instances_key
from headway.engine.journal import sealed
from headway.statechart.snapshot import Snapshot
from headway.store.rows import InstanceRow
from headway.store.unit import Changes, Found, Reads
from headway.testing import FakeClock, Harness
from tests.store.contract.acts import found

pytestmark = pytest.mark.mission("ENG-20", "ENG-21")

ANN = person("ann")
T = "default"
LIVE = (T, instances_key("Job", "ann"))


class Job(Statechart, owner="{user}", read_by="auditor"):
    """A user's job."""

    new, running, done = State(initial=True), State(), Final()
    begin = new.to(running, by="{owner}")
    finish = running.to(done)


class Rewriting:
    """A unit that stores a row as an earlier version of Headway would have stored it."""

    def __init__(self, row: InstanceRow) -> None:
        snapshot = replace(decode(Snapshot, row.snapshot), owner=None)
        self._row = sealed(replace(row, snapshot=encode(snapshot).decode()))

    def begin(self) -> Reads:
        """Read nothing."""
        return Reads()

    def take(self, _: Found) -> None:
        """Nothing is needed."""

    def changes(self) -> Changes:
        """The row."""
        return Changes(updated=[self._row])


async def test_the_owner_of_the_row_counts_until_a_step_stores_it(database: str, clock: FakeClock) -> None:
    """They read and act as before, the row keeps them, and the count of their live instances ends at 0."""
    async with Harness(Job, database=database, clock=clock) as life:
        engine = life.node.engine
        await life.tenant.create(Job, "j", {"user": "ann"})
        await engine.store.run(Rewriting(await engine.row(T, "j")))
        row = await engine.row(T, "j")
        assert (row.owner, decode(Snapshot, row.snapshot).owner) == ("ann", None)
        assert await engine.visibility.may_read(row, replace(ANN, own=True))
        assert (await life.tenant.get("j")).owner == "ann"
        await life.tenant.send("j", Job.begin(by=ANN))
        assert (await engine.row(T, "j")).owner == "ann"
        await life.tenant.send("j", Job.finish())
        assert (await engine.row(T, "j")).owner == "ann"
        assert (await found(engine.store, counters={LIVE})).counters.get(LIVE, 0) == 0
