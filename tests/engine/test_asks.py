"""Asks: people take them on, pass them on, answer them, by login or by a signed link."""

import asyncio

import pytest
from pydantic import BaseModel

from headway import Ask, Final, Refusal, State, Statechart, person
from headway.engine.asks import Signer
from headway.engine.orders import Receipt
from headway.errors import LinkError, UnknownAskError
from headway.testing import FakeClock, Harness
from tests.refusals import answer_to, refusal_of

pytestmark = pytest.mark.mission("ENG-8")

ANN, BOB, EVE = person("ann", "manager"), person("bob", "manager"), person("eve", "clerk")
CHIEF = person("cid", "chief")
SECRETS = ["a secret of sixteen or more"]


class Verdict(BaseModel):
    """What the manager says."""

    amount: int


class Claim(Statechart, version=1):
    """Asks a manager for two days, a chief after one, and then gives up."""

    review = State(
        initial=True,
        ask=Ask("manager", form=Verdict, deadline="2d", remind="12h", escalate={"chief": "1d"}),
    )
    paid, refused, expired = Final(), Final(), Final()
    approve = review.to(paid, by="manager", takes=Verdict)
    reject = review.to(refused, by="manager")
    expire = review.on_deadline.to(expired)


@pytest.fixture
def made(database: str, clock: FakeClock) -> Harness:
    """A node on each kind of store."""
    return Harness(Claim, database=database, clock=clock, secrets=SECRETS)


async def opened(harness: Harness, name: str = "c1") -> str:
    """The id of the ask of a new claim."""
    (await harness.tenant.create(Claim, name)).unwrap()
    return (await harness.node.asks.of_instance("default", name))[0].id


async def test_an_inbox_shows_what_an_actor_may_answer(made: Harness) -> None:
    """By role, the oldest first, page by page, with the form; nothing of another tenant, nothing answered."""
    async with made as harness:
        first = await opened(harness)
        harness.clock.advance("1m")
        second = await opened(harness, "c2")
        (await harness.node.tenant("other").create(Claim, "c1")).unwrap()
        inbox = harness.tenant.inbox
        assert [ask.id for ask in await inbox(ANN)] == [first, second]
        assert [ask.id for ask in await inbox(ANN, limit=1)] == [first]
        assert [ask.id for ask in await inbox(ANN, after=first)] == [second]
        assert await inbox(EVE) == []
        form = await harness.node.asks.form(await harness.tenant.ask(first))
        assert form is not None
        assert form["properties"]["amount"]["type"] == "integer"
        (await harness.tenant.answer(first, "approve", {"amount": 3}, by=ANN)).unwrap()
        assert [ask.id for ask in await inbox(ANN)] == [second]
        closed = await harness.tenant.ask(first)
        assert (closed.closed_by, closed.closed_event) == ("ann", "approve")


async def test_who_has_claimed_an_ask_has_it_alone_until_the_lease_runs_out(made: Harness) -> None:
    """Another's claim and answer are refused, a release or the end of the lease lets others in."""
    async with made as harness:
        ask = await opened(harness)
        tenant = harness.tenant
        (await tenant.claim(ask, by=ANN, lasts="10m")).unwrap()
        assert (await tenant.ask(ask)).claimed_by == "ann"
        for call in (tenant.claim(ask, by=BOB), tenant.answer(ask, "reject", by=BOB)):
            refused = await refusal_of(call)
            assert refused.code == "claimed"
            assert "ann" in refused.message
        (await tenant.release(ask, by=ANN)).unwrap()
        (await tenant.claim(ask, by=BOB, lasts="10m")).unwrap()
        await harness.advance("10m")
        (await tenant.answer(ask, "reject", by=ANN)).unwrap()
        await refusal_of(tenant.claim(ask, by=BOB))


async def test_of_two_who_claim_or_answer_at_once_one_wins(made: Harness) -> None:
    """The other is told so."""
    async with made as harness:
        ask = await opened(harness)
        claims = await asyncio.gather(*(answer_to(harness.tenant.claim(ask, by=each)) for each in (ANN, BOB)))
        assert sorted(type(answer).__name__ for answer in claims) == ["Receipt", "Refusal"]
        other = await opened(harness, "c2")
        answers = await asyncio.gather(
            *(answer_to(harness.tenant.answer(other, "reject", by=each)) for each in (ANN, BOB))
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["Receipt", "Refusal"]


async def test_a_delegated_ask_is_for_the_delegate_alone(made: Harness) -> None:
    """It is in the delegate's inbox alone, if they have the role to answer, until they release it."""
    async with made as harness:
        ask = await opened(harness)
        tenant = harness.tenant
        (await tenant.delegate(ask, to="eve", by=ANN)).unwrap()
        assert await tenant.inbox(EVE) == []
        assert await tenant.inbox(ANN) == []
        for call in (
            tenant.answer(ask, "reject", by=ANN),
            tenant.answer(ask, "reject", by=EVE),
            tenant.claim(ask, by=EVE),
            tenant.delegate(ask, to="zoe", by=EVE),
        ):
            assert (await refusal_of(call)).code == "actor"
        (await tenant.release(ask, by=EVE)).unwrap()
        assert await tenant.inbox(EVE) == []
        (await tenant.delegate(ask, to="bob", by=ANN)).unwrap()
        assert [row.id for row in await tenant.inbox(BOB)] == [ask]
        (await tenant.answer(ask, "reject", by=BOB)).unwrap()


async def test_reminders_escalation_and_the_deadline_come_by_themselves(made: Harness) -> None:
    """The chief gets it after a day; after two days it is over, and a late answer is refused."""
    async with made as harness:
        ask = await opened(harness)
        await harness.advance("12h")
        assert harness.node.timers.tally["fired"] == 1
        assert await harness.tenant.inbox(CHIEF) == []
        await harness.advance("13h")
        assert [row.id for row in await harness.tenant.inbox(CHIEF)] == [ask]
        await harness.advance("1d")
        assert (await harness.tenant.get("c1")).states == ("expired",)
        late = await refusal_of(harness.tenant.answer(ask, "approve", {"amount": 1}, by=ANN))
        assert late.code == "late"


async def test_a_link_answers_once(made: Harness) -> None:
    """A double click gets the first answer, another answer is refused; a mistyped one may be mended."""
    async with made as harness:
        ask = await opened(harness)
        token = await harness.tenant.link(ask, for_=ANN)
        asks = harness.node.asks
        link, row = await asks.open_link(token)
        assert (link.by.id, row.id) == ("ann", ask)
        assert isinstance(await asks.answer_link(token, "approve", {"amount": "much"}), Refusal)
        first = await asks.answer_link(token, "approve", {"amount": 3})
        assert isinstance(first, Receipt)
        assert await asks.answer_link(token, "approve", {"amount": 3}) == first
        with pytest.raises(LinkError, match="another answer"):
            await asks.answer_link(token, "reject")


async def test_a_link_that_is_forged_old_or_cut_is_none(made: Harness) -> None:
    """Each way of tampering is refused before anything is read."""
    async with made as harness:
        ask = await opened(harness)
        token = await harness.tenant.link(ask, for_=ANN, lasts="1h")
        body, _, signature = token.partition(".")
        row = await harness.tenant.ask(ask)
        forged = Signer(["another secret of that length"]).sign(row, ANN, harness.clock.now())
        cut = (body, f"{body}.", f"{body[:-2]}.{signature}", token[:-3])
        for bad in ("", ".", *cut, forged, f"é.{signature}"):
            with pytest.raises(LinkError):
                await harness.node.asks.answer_link(bad, "reject")
        harness.clock.advance("1h")
        with pytest.raises(LinkError, match="expired"):
            await harness.node.asks.answer_link(token, "reject")
        with pytest.raises(UnknownAskError):
            await harness.tenant.ask("c9:1:0")


async def test_a_link_does_nothing_but_answer(made: Harness) -> None:
    """It passes nothing on, and an old one is not for the question of a later life."""
    async with made as harness:
        ask = await opened(harness)
        token = await harness.tenant.link(ask, for_=ANN)
        with pytest.raises(LinkError, match="only be used to answer"):
            await harness.node.asks.answer_link(token, "ask.delegate", {"to": "mallory"})
        (await harness.tenant.answer(ask, "reject", by=BOB)).unwrap()
        harness.clock.advance("1s")
        assert await harness.node.engine.store.instances.prune(harness.clock.now(), 10) == 1
        assert await opened(harness) == ask
        with pytest.raises(LinkError, match="earlier ask"):
            await harness.node.asks.answer_link(token, "reject")
