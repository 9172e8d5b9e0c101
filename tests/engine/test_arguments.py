"""Wrong arguments are told in the caller's words, whatever they are; nothing is changed by them."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from headway import Actor, Ask, Event, Final, State, Statechart, person
from headway.codec import DEEPEST
from headway.engine.tenant import Tenant
from headway.errors import InputError
from headway.node import Node
from headway.store.rows import AskRow

pytestmark = pytest.mark.mission("ENG-1")


class Expense(Statechart, cancel="withdraw"):
    """A claim that a manager approves."""

    review = State(initial=True, ask=Ask("manager"))
    paid, withdrawn = Final(), Final()
    approve = review.to(paid, by="manager")
    withdraw = review.to(withdrawn, by="system")


bob = person("bob", "manager")
approval = Expense.approve(by=bob)


class Caller(NamedTuple):
    """A tenant as one sees it who does not look at annotations, and an ask."""

    tenant: Any
    row: AskRow


Call = Callable[[Caller], Awaitable[object]]
NO_ACTOR = "must be an actor, as person('bob', 'manager'), not 'bob'"
NO_LIMIT = "limit= must be a whole number of at least 1, not "
DEEP = json.loads("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1))
NO_INSTANCE = "instance must be a string, not 7"
CALLS: dict[str, tuple[Call, str]] = {
    "inbox of a name": (lambda it: it.tenant.inbox("bob"), f"actor= {NO_ACTOR}"),
    "inbox of a look-alike": (
        lambda it: it.tenant.inbox(Actor("bob ")),
        "the id of the actor actor= must not",
    ),
    "send as a look-alike": (
        lambda it: it.tenant.send("c1", Event("approve", by=Actor("bob\u200b"))),
        "the id of the actor by= must not",
    ),
    "cancel as whoever the chart names": (
        lambda it: it.tenant.cancel("c1", by=Actor("bob", "person", frozenset({"{owner}"}))),
        "which stands for a person",
    ),
    "send as nobody": (
        lambda it: it.tenant.send("c1", Event("approve", by=Actor(loose(7)))),
        "the id of the actor by= must be a string",
    ),
    "link for a look-alike": (
        lambda it: it.tenant.link(it.row.id, for_=Actor(" bob")),
        "the id of the actor for_= must not",
    ),
    "inbox with a limit": (lambda it: it.tenant.inbox(bob, limit=-1), f"{NO_LIMIT}-1"),
    "inbox from": (lambda it: it.tenant.inbox(bob, after=7), "after must be a string, not 7"),
    "answer to a row": (
        lambda it: it.tenant.answer(it.row, "approve", by=bob),
        "ask must be a string (pass its id, 'e1:1:0'), not AskRow(",
    ),
    "answer by a name": (lambda it: it.tenant.answer(it.row.id, "approve", by="bob"), f"by= {NO_ACTOR}"),
    "answer of a number": (
        lambda it: it.tenant.answer(it.row.id, 7, by=bob),
        "answer must be a string, not 7",
    ),
    "claim of a row": (lambda it: it.tenant.claim(it.row, by=bob), "pass its id"),
    "claim by a name": (lambda it: it.tenant.claim(it.row.id, by="bob"), f"by= {NO_ACTOR}"),
    "claim for how long": (lambda it: it.tenant.claim(it.row.id, by=bob, lasts="soon"), "not a duration"),
    "release by a name": (lambda it: it.tenant.release(it.row.id, by="bob"), f"by= {NO_ACTOR}"),
    "delegation to an actor": (
        lambda it: it.tenant.delegate(it.row.id, to=bob, by=bob),
        "to must be a string (pass its id, 'bob')",
    ),
    "an ask by its row": (lambda it: it.tenant.ask(it.row), "pass its id"),
    "a link for a name": (lambda it: it.tenant.link(it.row.id, for_="bob"), f"for_= {NO_ACTOR}"),
    "a list of no chart": (lambda it: it.tenant.list(chart=7), "not a chart: 7"),
    "a list of a state": (
        lambda it: it.tenant.list(status=Expense.review),
        "status must be a string, not <headway.statechart.authoring.states.State",
    ),
    "a list of some end": (lambda it: it.tenant.list(ended="yes"), "ended= must be True, False or left out"),
    "a list of none": (lambda it: it.tenant.list(limit=0), f"{NO_LIMIT}0"),
    "a list of fewer": (lambda it: it.tenant.list(limit=-1), f"{NO_LIMIT}-1"),
    "a list of a text": (lambda it: it.tenant.list(limit="3"), f"{NO_LIMIT}'3'"),
    "a list without a limit": (lambda it: it.tenant.list(limit=None), f"{NO_LIMIT}None"),
    "a list from a row on": (lambda it: it.tenant.list(after=it.row), "after must be a string (pass its id"),
    "a history of a number": (lambda it: it.tenant.history(7), NO_INSTANCE),
    "a history from": (lambda it: it.tenant.history("e1", after="3"), "after= must be a whole number"),
    "a history from before": (
        lambda it: it.tenant.history("e1", after=-1),
        "after= must be a whole number of at least 0, not -1",
    ),
    "a history with a limit": (lambda it: it.tenant.history("e1", limit="3"), f"{NO_LIMIT}'3'"),
    "get of a number": (lambda it: it.tenant.get(7), NO_INSTANCE),
    "why of a number": (lambda it: it.tenant.why(7), NO_INSTANCE),
    "until a number": (lambda it: it.tenant.until("e1", 7), "chart Expense has no state 7"),
    "send of a name": (
        lambda it: it.tenant.send("e1", "approve"),
        "as Expense.approve(by=bob), not 'approve'",
    ),
    "send of a transition": (lambda it: it.tenant.send("e1", Expense.approve), "not <Transition approve"),
    "send of what is too deep": (
        lambda it: it.tenant.send("e1", Event("approve", DEEP, by=bob)),
        "levels deep",
    ),
    "answer with what is too deep": (
        lambda it: it.tenant.answer(it.row.id, "approve", DEEP, by=bob),
        "levels deep",
    ),
    "create with what is too deep": (
        lambda it: it.tenant.create(Expense, "e9", {"in": DEEP}),
        "levels deep",
    ),
    "send to a number": (lambda it: it.tenant.send(7, approval), NO_INSTANCE),
    "send to nobody": (lambda it: it.tenant.send(None, approval), "instance must be a string, not None"),
    "send by a name": (lambda it: it.tenant.send("e1", Expense.approve(by=loose("bob"))), f"by= {NO_ACTOR}"),
    "send of no name": (
        lambda it: it.tenant.send("e1", Event(loose(7))),
        "the name of an event must be a string that is not empty, not 7",
    ),
    "send with an id": (
        lambda it: it.tenant.send("e1", approval, request_id=7),
        "request_id must be a string, not 7",
    ),
    "send at a text": (
        lambda it: it.tenant.send("e1", approval, expected_seq="1"),
        "expected_seq= must be a whole number of at least 0, not '1'",
    ),
    "many names": (lambda it: it.tenant.send_many(["e1"]), "as ('e1', event), not 'e1'"),
    "many events": (lambda it: it.tenant.send_many([approval]), "as ('e1', event), not Event("),
    "many in a mapping": (lambda it: it.tenant.send_many({"e1": approval}), "events must be a list of pairs"),
    "a life with a list": (lambda it: it.tenant.create(Expense, "e2", [1]), "a context must be a mapping"),
    "a life with a text": (lambda it: it.tenant.create(Expense, "e2", "abc"), "a context must be a mapping"),
    "a life by a name": (lambda it: it.tenant.create(Expense, "e2", by="bob"), f"by= {NO_ACTOR}"),
    "a life of a number": (lambda it: it.tenant.create(Expense, 7), NO_INSTANCE),
    "a life of no chart": (lambda it: it.tenant.create(7, "e2"), "not a chart: 7"),
    "a life with a seed": (
        lambda it: it.tenant.create(Expense, "e2", seed="x"),
        "seed= must be a whole number",
    ),
    "a life with an id": (lambda it: it.tenant.create(Expense, request_id=7), "request_id must be a string"),
    "an end by a name": (lambda it: it.tenant.cancel("e1", by="bob"), f"by= {NO_ACTOR}"),
    "an end for a number": (lambda it: it.tenant.cancel("e1", reason=7), "reason must be a string, not 7"),
    "an end of a number": (lambda it: it.tenant.cancel(7), NO_INSTANCE),
}


def loose(value: object) -> Any:
    """A value that a type checker would not let through."""
    return value


@asynccontextmanager
async def calling() -> AsyncIterator[Caller]:
    """A caller of a node on which e1 waits for a manager."""
    node = Node("sqlite:///:memory:", [Expense], secrets=["s" * 32])
    async with node.opened() as tenant:
        (await tenant.create(Expense, "e1", {"amount": 12})).unwrap()
        [row] = await tenant.inbox(bob)
        yield Caller(tenant, row)


@pytest.mark.parametrize("name", CALLS)
async def test_a_wrong_argument_is_told(name: str) -> None:
    """The message says which argument it is and what to pass; the instance stays where it is."""
    call, says = CALLS[name]
    async with calling() as caller:
        with pytest.raises(InputError) as told:
            await call(caller)
        assert says in str(told.value)
        assert (await caller.tenant.get("e1")).states == ("review",)
        assert len(await caller.tenant.list()) == 1


async def test_a_list_takes_the_chart_itself() -> None:
    """A chart is named by its name or by its class."""
    async with calling() as caller:
        tenant: Tenant = caller.tenant
        assert [row.id for row in await tenant.list(chart=Expense)] == ["e1"]
        assert [row.id for row in await tenant.list(chart=Expense.chart)] == ["e1"]
        assert await tenant.list(chart="Order") == []


@pytest.mark.parametrize("name", ["", "acme ", "acme\n", "ac\u200bme"], ids=ascii)
def test_a_tenant_has_a_name_that_looks_like_no_other(name: str) -> None:
    """A tenant is not named like another with something behind it that nobody sees."""
    with pytest.raises(InputError, match="the name of a tenant must"):
        Node("sqlite:///:memory:").tenant(name)
