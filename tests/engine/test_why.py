"""Why after something went wrong: the last error of work, and what ended an instance."""

from datetime import timedelta

import pytest

from headway import Actor, Ask, Final, Retry, Run, State, Statechart, Upgrade, any_live, person
from headway.actions import spawn
from headway.codec import decode
from headway.engine.upgrade.upgrade import upgrade
from headway.statechart.snapshot import work_failed
from headway.testing import FakeClock, Harness
from headway.worker import Fail, Handlers, Work

ANN, BOB = person("ann", "clerk"), person("bob", "manager")


class Payment(Statechart, cancel="withdraw"):
    """A payment that is checked when it cannot be made."""

    review = State(initial=True, ask=Ask("manager", deadline="2d"))
    paying = State(run="pay", retry=Retry(2, on=("BUSY",), base="10s", jitter=0))
    checking = State(ask=Ask("manager", deadline="9d"))
    paid, refused, late, withdrawn = Final(), Final(), Final(), Final()

    approve = review.to(paying, by="manager")
    refuse = review.to(refused, by="manager")
    expire = review.on_deadline.to(late)
    done = paying.on_done.to(paid)
    broken = paying.on_error.to(checking)
    again = checking.to(paying, by="manager")
    give_up = checking.on_deadline.to(refused)
    withdraw = any_live.to(withdrawn, by="clerk")


class Order(Statechart, cancel="stop"):
    """Something whose cancellation reaches its payments."""

    open_ = State(initial=True, entry=spawn("Payment"))
    stopped = Final()
    stop = any_live.to(stopped, by="clerk")


class Bank:
    """A bank that answers as it is told."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.handlers = Handlers()

        @self.handlers
        async def pay(_work: Work) -> object:
            """Pay, or say why not."""
            return self.answers.pop(0)


async def approved(life: Harness) -> None:
    """A payment that is under way."""
    await life.tenant.create(Payment, "p1")
    await life.tenant.send("p1", Payment.approve(by=BOB))
    await life.run_until_idle()


@pytest.mark.mission("ENG-7", "ENG-11")
async def test_why_tells_the_last_error_and_when_the_next_attempt_comes() -> None:
    """Code, message, attempt and worker of the failure, and the time of the attempt that follows."""
    bank = Bank(Fail("BUSY", "the bank is closed"), "paid")
    async with Harness(Payment, handlers=bank.handlers) as life:
        await approved(life)
        why = await life.tenant.why("p1")
        failure = why.failure
        assert failure is not None
        assert (failure.state, failure.code, failure.message) == ("paying", "BUSY", "the bank is closed")
        assert (failure.attempt, failure.at, failure.next_attempt) == (1, life.clock.now(), 2)
        assert failure.next_try == life.clock.now() + timedelta(seconds=10)
        assert failure.by == why_worker(life)
        due = failure.next_try.isoformat()
        assert f"with BUSY: the bank is closed (on {failure.by}). Attempt 2 is due at {due}." in str(why)
        await life.advance("10s")
        why = await life.tenant.why("p1")
        assert (why.why.ended, why.failure) == (True, None), "what went well in the end is not an error"


@pytest.mark.mission("ENG-7", "ENG-11")
async def test_why_and_history_tell_an_error_whose_work_was_left() -> None:
    """What ended the wait and the last error before are both told; the line of the error has the next try."""
    async with Harness(Payment, handlers=Bank(Fail("BUSY", "closed")).handlers) as life:
        await approved(life)
        await life.tenant.cancel("p1", by=ANN)
        why = await life.tenant.why("p1")
        assert why.failure is not None
        assert (why.failure.then, why.failure.next_try) == ("left", None)
        assert "failed with BUSY: closed" in str(why)
        assert "The work was left before the next attempt." in str(why)
        [line] = [line for line in await life.tenant.history("p1") if line.transition == "retry"]
        due = life.clock.now() + timedelta(seconds=10)
        told = {"code": "BUSY", "message": "closed", "next_try": due.isoformat()}
        assert (decode(dict, line.data or ""), line.attempt) == (told, 1)


def why_worker(life: Harness) -> str:
    """The name of the worker of a node."""
    assert life.node.worker is not None
    return life.node.worker.id


@pytest.mark.mission("ENG-7", "ENG-11")
async def test_why_tells_that_attempts_are_used_up_and_what_is_not_retried() -> None:
    """In the state that took the error its cause is still known, while the work has not succeeded since."""
    bank = Bank(*[Fail("BUSY", "closed")] * 3, Fail("NO_MONEY", "x" * 900), Fail("BUSY"), "paid")
    async with Harness(Payment, handlers=bank.handlers) as life:
        await approved(life)
        await life.advance("1m")
        why = await life.tenant.why("p1")
        assert why.why.states == ("checking",)
        assert why.failure is not None
        assert (why.failure.attempt, why.failure.next_try) == (3, None)
        assert "Attempt 3 of the work of paying failed" in str(why)
        assert "Its attempts are used up." in str(why)
        await life.tenant.send("p1", Payment.again(by=BOB))
        await life.run_until_idle()
        why = await life.tenant.why("p1")
        assert why.failure is not None
        assert (why.failure.code, len(why.failure.message)) == ("NO_MONEY", 300)
        assert "The chart does not retry this error." in str(why)
        await life.tenant.send("p1", Payment.again(by=BOB))
        await life.advance("1m")
        assert (await life.tenant.why("p1")).failure is None


@pytest.mark.mission("ENG-7", "ENG-8")
async def test_why_tells_what_ended_an_instance() -> None:
    """The event, who sent it and their reason; or the deadline, the error, the cancelled parent."""
    bank = Bank(Fail("NO_MONEY", "empty"))
    async with Harness(Payment, Order, handlers=bank.handlers) as life:
        for name in ("sent", "late"):
            await life.tenant.create(Payment, name)
        now = life.clock.now().isoformat()
        await life.tenant.send("sent", Payment.refuse(by=BOB, reason="twice"))
        ending = (await life.tenant.why("sent")).ending
        assert ending is not None
        assert (ending.event, ending.by, ending.reason) == ("refuse", "bob", "twice")
        assert f"It ended at {now}: bob sent refuse (twice)." in str(await life.tenant.why("sent"))

        await life.tenant.create(Order, "o1", by=ANN)
        await life.tenant.cancel("o1", by=ANN, reason="a mistake")
        await life.run_until_idle()
        assert "ann cancelled it (a mistake)." in str(await life.tenant.why("o1"))
        [child] = await life.tenant.list(parent="o1")
        assert "ann cancelled it (o1 was cancelled)." in str(await life.tenant.why(child.id))

        await life.tenant.create(Payment, "p1")
        await life.tenant.send("p1", Payment.approve(by=BOB))
        await life.advance("9d")
        fired_by = f"fired by the node {life.node.engine.node}"
        reasons = {line.event: line.reason for line in await life.tenant.history("p1")}
        assert reasons["deadline.checking"] == fired_by, "the history names the node"
        assert "It ended" in (said := str(await life.tenant.why("p1")))
        assert f"the deadline of checking passed ({fired_by})." in said
        assert "with NO_MONEY: empty" in said
        assert "the deadline of review passed (" in str(await life.tenant.why("late"))


class Paid(Statechart):
    """Work whose error ends it."""

    paying = State(initial=True, run="pay")
    paid, failed = Final(), Final()
    done = paying.on_done.to(paid)
    broken = paying.on_error.to(failed)


@pytest.mark.mission("ENG-7")
async def test_an_end_by_an_error_tells_the_error_once() -> None:
    """The code, the message and the attempt stand where the end is told."""
    async with Harness(Paid, handlers=Bank(Fail("NO_MONEY", "empty")).handlers) as life:
        await life.tenant.create(Paid, "p1")
        await life.run_until_idle()
        why = await life.tenant.why("p1")
        assert why.ending is not None
        assert (why.ending.code, why.ending.message, why.ending.attempt) == ("NO_MONEY", "empty", 1)
        assert str(why).count("NO_MONEY") == 1
        assert "attempt 1 of the work of paying failed with NO_MONEY: empty (on " in str(why)


class Odd(Statechart):
    """Its event has a name that looks like one of the engine's."""

    open_, gone = State(initial=True), Final()
    deadline = open_.to(gone, by="clerk")


async def test_an_event_called_deadline_is_no_deadline() -> None:
    """It is told as what it is: an event that somebody sent."""
    async with Harness(Odd) as life:
        await life.tenant.create(Odd, "o1", by=ANN)
        await life.tenant.send("o1", Odd.deadline(by=ANN))
        assert "ann sent deadline." in str(await life.tenant.why("o1"))


class Packing(Statechart):
    """A parcel that is packed, again and again."""

    go = State(initial=True, run=Run("pack", retry=Retry(5)))
    done = Final()
    packed = go.on_done.to(done)
    broken = go.on_error.to(done)


class Inner(Statechart, name="Packing", version=2, upgrades={1: Upgrade(states={"go": "pack"})}):
    """A later version, in which `go` has states inside."""

    pack = State(initial=True, run="pack")
    rest = State()
    go = State(rest)
    done = Final()
    packed = pack.on_done.to(done)
    on = pack.to(go)
    off = rest.to(done)


async def test_why_is_told_after_an_upgrade_that_gave_a_state_inner_states(
    database: str, clock: FakeClock
) -> None:
    """A line of an earlier version names a state in which nobody is any more by itself: it is left out."""
    async with Harness(Packing, database=database, clock=clock) as life:
        await life.tenant.create(Packing, "p1")
        work = (await life.tenant.get("p1")).work["go"]
        failed = work_failed(work.id, 1, "E", "boom", by=Actor("w", "service"))
        await life.node.engine.send("default", "p1", failed)
        assert (await life.tenant.why("p1")).failure is not None
    async with Harness(Packing, Inner, database=database, clock=clock) as life:
        assert (await upgrade(life.node.engine, "Packing", 2)).done == 1
        assert (await life.tenant.why("p1")).failure is None
