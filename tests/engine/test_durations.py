"""Durations of the engine: each holds until just before its end, and no longer."""

from datetime import timedelta

import pytest

from headway import Ask, Final, Retry, State, Statechart, person
from headway.actions import topic
from headway.errors import HeadwayError
from headway.store.queries import Claim, MessageQuery
from headway.testing import FakeClock, Harness
from headway.worker import Retention
from tests.refusals import refusal_of

ANN, BOB = person("ann", "manager"), person("bob", "manager")
MOMENT = timedelta(milliseconds=1)
LEASE = timedelta(seconds=90)


class Switch(Statechart):
    """Flips as often as it is told to, and says so."""

    on = State(initial=True)
    off = Final()
    flip = on.stay(do=topic("flipped"))
    stop = on.to(off)


class Errand(Statechart):
    """Does work, and once more when its worker is lost."""

    going = State(initial=True, run="go", retry=Retry(1, base="0s", on="lost"))
    done, lost = Final(), Final()
    finish = going.on_done.to(done)
    lose = going.on_error("lost").to(lost)


class Question(Statechart):
    """Asks a manager."""

    asking = State(initial=True, ask=Ask("manager", deadline="2d"))
    answered, late = Final(), Final()
    approve = asking.to(answered, by="manager")
    expire = asking.on_deadline.to(late)


@pytest.fixture
def made(database: str, clock: FakeClock) -> Harness:
    """A node on each kind of store."""
    kept = Retention(messages="2d", charts={"Switch": "3d"})
    return Harness(Switch, Errand, Question, database=database, clock=clock, retention=kept)


@pytest.mark.mission("ENG-6")
async def test_a_creation_is_remembered_for_24_hours(made: Harness) -> None:
    """A repeat is answered like the first until then; later the name is taken."""
    async with made as harness:
        first = await harness.tenant.create(Switch, "s", request_id="r")
        await harness.advance(timedelta(hours=24) - MOMENT)
        assert await harness.tenant.create(Switch, "s", request_id="r") == first
        await harness.advance(MOMENT)
        with pytest.raises(HeadwayError, match="s"):
            await harness.tenant.create(Switch, "s", request_id="r")


@pytest.mark.mission("ENG-6")
async def test_an_event_is_remembered_for_an_hour(made: Harness) -> None:
    """A repeat is answered like the first until then; later it is a new event."""
    async with made as harness:
        await harness.tenant.create(Switch, "s")
        first = (await harness.tenant.send("s", Switch.flip(), request_id="r")).unwrap()
        await harness.advance(timedelta(hours=1) - MOMENT)
        assert await harness.tenant.send("s", Switch.flip(), request_id="r") == first
        await harness.advance(MOMENT)
        again = (await harness.tenant.send("s", Switch.flip(), request_id="r")).unwrap()
        assert again.seq == first.seq + 1


@pytest.mark.mission("ENG-6")
async def test_a_request_id_is_pruned_when_it_has_expired(made: Harness) -> None:
    """Pruning leaves alone what still counts."""
    async with made as harness:
        await harness.tenant.create(Switch, "s", request_id="r")
        await harness.advance(timedelta(hours=24) - MOMENT)
        assert harness.node.pruning.tally["requests"] == 0
        await harness.advance(MOMENT)
        assert harness.node.pruning.tally["requests"] == 1


@pytest.mark.mission("ENG-7")
async def test_messages_and_instances_are_kept_as_long_as_retention_says(made: Harness) -> None:
    """Not a moment less than two days for messages, and three for instances that have ended."""
    async with made as harness:
        await harness.tenant.create(Switch, "s")
        (await harness.tenant.send("s", Switch.flip())).unwrap()
        (await harness.tenant.send("s", Switch.stop())).unwrap()

        async def kept() -> tuple[int, int]:
            messages = await harness.node.engine.store.messages.page(MessageQuery(kinds=("topic",)))
            return len(messages.messages), len(await harness.tenant.list())

        await harness.advance("11s")  # by then the consumers have settled how far they are
        await harness.advance(timedelta(days=2, seconds=-11))
        assert await kept() == (1, 1)
        await harness.advance(MOMENT)
        assert await kept() == (0, 1)
        await harness.advance(timedelta(days=1) - MOMENT)
        assert await kept() == (0, 1)
        await harness.advance(MOMENT)
        assert await kept() == (0, 0)


@pytest.mark.mission("ENG-10")
async def test_lost_work_is_rescued_at_the_end_of_its_lease(made: Harness) -> None:
    """Its worker has it until then, and the next attempt begins at that time."""
    async with made as harness:
        await harness.tenant.create(Errand, "e")
        engine = harness.node.engine
        [taken] = await engine.store.work.claim(Claim("dead", ("default",), 1, engine.charts.versions))
        assert taken.leased_until == harness.clock.now() + LEASE
        await harness.advance(LEASE - MOMENT)
        assert (await harness.tenant.get("e")).work["going"].attempt == 1
        assert harness.node.rescue.tally["rescued"] == 0
        await harness.advance(MOMENT)
        assert (await harness.tenant.get("e")).work["going"].attempt == 2


@pytest.mark.mission("ENG-8")
async def test_a_claimed_ask_is_its_claimants_until_the_claim_ends(made: Harness) -> None:
    """Another person is refused a moment before, and may take it at that time."""
    async with made as harness:
        await harness.tenant.create(Question, "q")
        [ask] = await harness.tenant.inbox(ANN)
        (await harness.tenant.claim(ask.id, by=ANN, lasts="10m")).unwrap()
        await harness.advance(timedelta(minutes=10) - MOMENT)
        refused = await refusal_of(harness.tenant.claim(ask.id, by=BOB))
        assert refused.code == "claimed"
        await harness.advance(MOMENT)
        (await harness.tenant.claim(ask.id, by=BOB)).unwrap()


@pytest.mark.mission("ENG-8", "ENG-9")
async def test_an_ask_can_be_answered_until_its_deadline(made: Harness) -> None:
    """A moment before, the question is open; at the deadline its default has been taken."""
    async with made as harness:
        await harness.tenant.create(Question, "q")
        await harness.advance(timedelta(days=2) - MOMENT)
        assert (await harness.tenant.get("q")).states == ("asking",)
        await harness.advance(MOMENT)
        assert (await harness.tenant.get("q")).states == ("late",)
