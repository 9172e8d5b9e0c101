"""The audit beyond the journal: rows that no instance knows, what is no flaw, and checkpoints."""

from datetime import timedelta

import pytest

from headway import AtMost, Final, Retry, Run, State, Statechart, Upgrade
from headway.engine.audit.audit import GONE, Audit
from headway.engine.audit.checkpoint import Checkpoint, Head, lines_of
from headway.engine.upgrade.upgrade import upgrade
from headway.errors import InputError
from headway.store.queries import Claim as WorkClaim
from headway.store.queries import TimerQuery, WorkQuery
from headway.store.rows import Attempt
from headway.testing import FakeClock, Harness
from headway.worker.rescue import Rescue
from headway.worker.timers import TimerPostponement
from tests.engine.test_journal import Claim, flaws, found_after, tampered

pytestmark = pytest.mark.mission("ENG-7")

REST = (
    "chart, version, state, handler, queue, priority, attempt, due, heartbeat, lease, at_once, rate_most,"
    " rate_per"
)
PACK = Run("pack", timeout="1m", priority=3, concurrency=AtMost(2, of="{box}"), retry=Retry(2, base="1h"))
WORK = f"INSERT INTO work (tenant, id, instance, {REST})"
STRAYS = {
    "default/c at 0: no instance waits for the timer x": (
        "INSERT INTO timer (tenant, id, instance, chart, version, event, due)"
        " SELECT tenant, 'x', instance, chart, version, event, due FROM timer WHERE instance = 'c'"
    ),
    "default/d at 0: no instance waits for the work x": (
        f"{WORK} SELECT tenant, 'x', instance, {REST} FROM work"  # noqa: S608 - names of this code
    ),
    "default/ghost at 0: no instance waits for the work x": (
        f"{WORK} SELECT tenant, 'x', 'ghost', {REST} FROM work"  # noqa: S608 - names of this code
    ),
    "default/ghost at 0: no instance waits for the ask c:2:0": (
        "UPDATE ask SET instance = 'ghost' WHERE instance = 'c'"
    ),
    "default/d at 2: nobody has put the ask c:2:0": "UPDATE ask SET instance = 'd' WHERE instance = 'c'",
}


@pytest.mark.parametrize(("flaw", "tampering"), STRAYS.items())
async def test_what_no_instance_waits_for_is_found(
    database: str, clock: FakeClock, tampering: str, flaw: str
) -> None:
    """A timer, work or a question that was put in shows with its instance."""
    async with Harness(Claim, database=database, clock=clock) as harness:
        assert flaw in await found_after(harness, database, tampering)


class Shipment(Statechart):
    """Packs, with a second try after an hour."""

    new = State(initial=True)
    packing = State(run=PACK)
    late, done = State(), Final()
    begin = new.to(packing)
    packed = packing.on_done.to(done)
    failed = packing.on_error.to(late)
    overdue = packing.after("2h").to(late)


class Quicker(Statechart, name="Shipment", version=2, upgrades={1: Upgrade()}):
    """The same, with other limits."""

    new = State(initial=True)
    packing = State(run="pack", timeout="30s", retry=Retry(2, base="1h"))
    late, done = State(), Final()
    begin = new.to(packing)
    packed = packing.on_done.to(done)
    failed = packing.on_error.to(late)
    overdue = packing.after("2h").to(late)


WORKER = WorkClaim("w", ("default",), 1, (("Shipment", 1), ("Shipment", 2)))


async def test_what_the_engine_does_to_work_and_timers_is_no_flaw(database: str, clock: FakeClock) -> None:
    """Work that is claimed, handed back, lost, tried again, hastened or upgraded, and timers put off."""
    async with Harness(Shipment, Quicker, database=database, clock=clock) as harness:
        store = harness.node.engine.store

        async def claimed() -> Attempt:
            [row] = await store.work.claim(WORKER)
            assert await flaws(harness) == []
            return (row.tenant, row.id, row.attempt)

        (await harness.tenant.create("Shipment", "s", {"box": "b-1"})).unwrap()
        (await harness.tenant.send("s", Shipment.begin())).unwrap()
        assert await flaws(harness) == []
        attempt = await claimed()
        clock.advance("10s")
        await store.work.release("w", [attempt], clock.now() + timedelta(days=10))
        assert await flaws(harness) == []
        assert await store.work.hasten([attempt])
        await claimed()
        clock.advance("5m")
        await Rescue(harness.node.engine).turn()
        [row] = await store.work.page(WorkQuery("default"))
        assert (row.attempt, row.worker, row.due > clock.now()) == (2, None, True)
        assert await flaws(harness) == []
        assert await store.work.hasten([(row.tenant, row.id, row.attempt)])
        assert await flaws(harness) == []
        await upgrade(harness.node.engine, "Shipment", 2)
        assert await flaws(harness) == []
        clock.advance("3h")
        for _ in range(2):
            await store.run(TimerPostponement(await store.timers.page(TimerQuery("default"))))
            assert await flaws(harness) == []
            clock.advance("5m")


class Switch(Statechart):
    """Is on or off until it is removed."""

    off, on, gone = State(initial=True), State(), Final()
    turn_on = off.to(on)
    turn_off = on.to(off)
    remove = off.to(gone)


KEEP = "CREATE TABLE kept AS SELECT * FROM instance WHERE id = 's'"
COLUMNS = "seq, status, states, since, ended, updated_at, journal, snapshot, seal"
SET_BACK = (
    f"UPDATE instance SET ({COLUMNS}) = (SELECT {COLUMNS} FROM kept) WHERE id = 's';"  # noqa: S608 - as above
    " DELETE FROM history WHERE instance = 's' AND seq > 1; DROP TABLE kept"
)
TAKE_OUT = "DELETE FROM history WHERE instance = 's'; DELETE FROM instance WHERE id = 's'"


async def kept_outside(harness: Harness) -> list[bytes]:
    """A checkpoint of all instances."""
    heads: list[Head] = []
    store = harness.node.engine.store
    assert [flaw async for flaw in Audit(store, seen=heads.append).everything()] == []
    return [*lines_of(heads, await store.now())]


async def found_by(harness: Harness, lines: list[bytes]) -> tuple[list[str], int]:
    """What an audit finds by a checkpoint, and how many instances were pruned since."""
    against = Checkpoint.read(lines)
    audit = Audit(harness.node.engine.store, against=against)
    return [str(flaw) async for flaw in audit.everything()], against.pruned


async def test_a_checkpoint_finds_an_instance_that_was_set_back(database: str, clock: FakeClock) -> None:
    """Old rows of an instance and of its history are whole in themselves; who kept a later head knows."""
    async with Harness(Switch, database=database, clock=clock) as harness:
        (await harness.tenant.create(Switch, "s")).unwrap()
        await tampered(database, KEEP)
        (await harness.tenant.send("s", Switch.turn_on())).unwrap()
        checkpoint = await kept_outside(harness)
        assert await found_by(harness, checkpoint) == ([], 0)
        await tampered(database, SET_BACK)
        assert await flaws(harness) == []
        found, _ = await found_by(harness, checkpoint)
        assert found == ["default/s at 1: it was set back: it is at 1, and was at 2 at the checkpoint"]
        # Another way to the same number does not hide it.
        (await harness.tenant.send("s", Switch.remove())).unwrap()
        found, _ = await found_by(harness, checkpoint)
        assert found == ["default/s at 2: it was set back: the last line of the checkpoint is gone"]


@pytest.mark.parametrize("ended", [False, True])
async def test_a_checkpoint_finds_an_instance_that_was_taken_out(
    database: str, clock: FakeClock, *, ended: bool
) -> None:
    """An instance that is gone with all its lines shows, unless the log was pruned that far."""
    async with Harness(Switch, database=database, clock=clock) as harness:
        (await harness.tenant.create(Switch, "s")).unwrap()
        if ended:
            (await harness.tenant.send("s", Switch.remove())).unwrap()
        checkpoint = await kept_outside(harness)
        await tampered(database, TAKE_OUT)
        assert await flaws(harness) == []
        found, pruned = await found_by(harness, checkpoint)
        assert (found, pruned) == ([f"default/s at {1 + ended}: {GONE}"], 0)


async def test_what_the_engine_does_after_a_checkpoint_is_no_flaw(database: str, clock: FakeClock) -> None:
    """Instances go on, end, are pruned and are created anew under the same name, in any order."""
    async with Harness(Switch, database=database, clock=clock) as harness:
        store = harness.node.engine.store
        for name in "abcd":
            (await harness.tenant.create(Switch, name)).unwrap()
        (await harness.tenant.send("a", Switch.remove())).unwrap()
        checkpoint = await kept_outside(harness)
        clock.advance("1d")
        (await harness.tenant.send("b", Switch.remove())).unwrap()
        (await harness.tenant.send("c", Switch.turn_on())).unwrap()
        assert await found_by(harness, checkpoint) == ([], 0)
        clock.advance("1d")
        await store.instances.prune(await store.now(), limit=10)
        assert await found_by(harness, checkpoint) == ([], 2)
        (await harness.tenant.create(Switch, "a")).unwrap()
        (await harness.tenant.send("c", Switch.turn_off())).unwrap()
        assert await found_by(harness, checkpoint) == ([], 2)
        assert await found_by(harness, await kept_outside(harness)) == ([], 0)


async def test_a_checkpoint_that_is_not_whole_is_refused(database: str, clock: FakeClock) -> None:
    """One that was cut off, changed, or is something else is no proof of anything."""
    async with Harness(Switch, database=database, clock=clock) as harness:
        for name in "ab":
            (await harness.tenant.create(Switch, name)).unwrap()
        whole = await kept_outside(harness)
    for broken in (
        [],
        [b"nothing"],
        whole[:-1],
        whole[1:],
        [whole[0], *whole[2:]],
        [line.replace(b'"a"', b'"c"') for line in whole],
        [line.replace(b'"format":1', b'"format":2') for line in whole],
    ):
        with pytest.raises(InputError, match="checkpoint"):
            Checkpoint.read(broken)
