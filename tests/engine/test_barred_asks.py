"""Duties on a node: claims, delegations, inboxes and links are for those who could answer, on each store."""

import pytest

from headway import Actor, Ask, Final, Refusal, State, Statechart, agent, person
from headway.engine import asks as asks_module
from headway.testing import FakeClock, Harness
from tests.refusals import refusal_of

pytestmark = pytest.mark.mission("ENG-1", "ENG-8")

ANN = person("ann", "manager", "employee")
BOB, CID = person("bob", "manager"), person("cid", "manager")
DAN, BOT = person("dan"), agent("bot", "manager")
SECRETS = ["a secret of sixteen or more"]


class Claim(Statechart):
    """Whoever submits does not decide, and no agent does."""

    draft = State(initial=True)
    review = State(ask=Ask("manager", deadline="2d"))
    paid, refused = Final(), Final()
    submit = draft.to(review, by="employee")
    approve = review.to(paid, by="manager", distinct_from="submit", no_agent=True)
    reject = review.to(refused, by="manager", distinct_from="submit", no_agent=True)
    expire = review.on_deadline.to(refused)


class Board(Statechart):
    """Two managers agree; either may send somebody else."""

    review = State(initial=True, ask=Ask("manager", deadline="2d", delegate="anyone"))
    agreed = Final()
    agree = review.to(agreed, by="manager", quorum=2)
    expire = review.on_deadline.to(agreed)


@pytest.fixture
def made(database: str, clock: FakeClock) -> Harness:
    """A node on each kind of store."""
    return Harness(Claim, Board, database=database, clock=clock, secrets=SECRETS)


async def submitted(harness: Harness, name: str, by: Actor = ANN) -> str:
    """The id of the ask of a claim that somebody has submitted."""
    (await harness.tenant.create(Claim, name)).unwrap()
    (await harness.tenant.send(name, Claim.submit(by=by))).unwrap()
    return (await harness.node.asks.of_instance("default", name))[0].id


def code_of(answer: object) -> str:
    """The code of a refusal."""
    assert isinstance(answer, Refusal), answer
    return answer.code


@pytest.mark.parametrize("barred", [ANN, BOT], ids=["submitter", "agent"])
async def test_who_is_barred_neither_claims_nor_delegates_nor_answers_by_link(
    made: Harness, barred: Actor
) -> None:
    """Each way is refused with the duty, and nothing of the ask has changed."""
    async with made as harness:
        ask = await submitted(harness, "c1")
        before = await harness.tenant.ask(ask)
        assert (await refusal_of(harness.tenant.claim(ask, by=barred, lasts="24h"))).code == "duty"
        assert (await refusal_of(harness.tenant.delegate(ask, to="dan", by=barred))).code == "duty"
        assert (await refusal_of(harness.tenant.answer(ask, "approve", by=barred))).code == "duty"
        token = await harness.tenant.link(ask, for_=barred)
        assert code_of(await harness.node.asks.answer_link(token, "approve")) == "duty"
        assert await harness.tenant.ask(ask) == before
        assert await harness.node.asks.yours(before, barred) == ()


async def test_a_link_for_a_delegate_gives_no_role(made: Harness) -> None:
    """A person without the role answers neither by login nor by link, whoever has delegated it."""
    async with made as harness:
        ask = await submitted(harness, "c1")
        (await harness.tenant.delegate(ask, to="dan", by=BOB)).unwrap()
        token = await harness.tenant.link(ask, for_=DAN)
        assert code_of(await harness.node.asks.answer_link(token, "approve")) == "actor"
        other = await harness.tenant.link(ask, for_=CID)
        assert code_of(await harness.node.asks.answer_link(other, "approve")) == "actor"
        (await harness.tenant.release(ask, by=DAN)).unwrap()
        (await harness.node.asks.answer_link(other, "approve")).unwrap()


async def test_an_inbox_offers_nothing_that_is_refused(
    made: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asks that an actor is barred from are not listed, whatever the limit, and do not cut the list short."""
    monkeypatch.setattr(asks_module, "MOST_READ", 3)
    async with made as harness:
        asks = []
        for number in range(9):
            harness.clock.advance("1m")
            asks.append(
                await submitted(harness, f"c{number}", ANN if number % 4 else person("eve", "employee"))
            )
        theirs = [asks[0], asks[4], asks[8]]
        for limit in (1, 2, 3, 100):
            listed = [row.id for row in await harness.tenant.inbox(ANN, limit=limit)]
            assert listed == theirs[:limit]
        assert [row.id for row in await harness.tenant.inbox(ANN, after=asks[1])] == theirs[1:]
        assert await harness.tenant.inbox(BOT) == []
        assert [row.id for row in await harness.tenant.inbox(BOB)] == asks
        page = await harness.node.asks.inbox_page("default", BOT, limit=2)
        assert (page.asks, page.next) == ([], asks[2])


async def test_an_inbox_knows_the_duties_of_a_chart_that_is_not_loaded(
    database: str, clock: FakeClock
) -> None:
    """A node without the chart reads it as it was stored, so that it lists the same."""
    async with Harness(Claim, database=database, clock=clock) as harness:
        ask = await submitted(harness, "c1")
    async with Harness(Board, database=database, clock=clock) as harness:
        assert await harness.tenant.inbox(ANN) == []
        assert [row.id for row in await harness.tenant.inbox(BOB)] == [ask]


async def test_a_vote_of_a_stand_in_is_one_vote(made: Harness) -> None:
    """Who delegated cannot vote besides; it leaves both inboxes, and a second manager is needed."""
    async with made as harness:
        (await harness.tenant.create(Board, "b1")).unwrap()
        [row] = await harness.node.asks.of_instance("default", "b1")
        (await harness.tenant.delegate(row.id, to="dan", by=BOB)).unwrap()
        assert await harness.node.asks.yours(await harness.tenant.ask(row.id), DAN) == ("agree",)
        (await harness.tenant.answer(row.id, "agree", by=DAN)).unwrap()
        for call in (
            harness.tenant.answer(row.id, "agree", by=BOB),
            harness.tenant.claim(row.id, by=BOB),
            harness.tenant.delegate(row.id, to="zoe", by=BOB),
            harness.tenant.delegate(row.id, to="dan", by=CID),
        ):
            assert (await refusal_of(call)).code == "duty"
        assert await harness.tenant.inbox(BOB) == []
        assert [each.id for each in await harness.tenant.inbox(CID)] == [row.id]
        (await harness.tenant.answer(row.id, "agree", by=CID)).unwrap()
        assert (await harness.tenant.get("b1")).states == ("agreed",)
