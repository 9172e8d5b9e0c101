"""The calls about instances, in both forms of the client, against the real service."""

import pytest

from headway import person
from headway.client import Standing
from headway.errors import (
    CallConflictError,
    EventRefusedError,
    ForbiddenError,
    InputError,
    NotFoundError,
    ProblemError,
    UnauthenticatedError,
)
from tests.client.conftest import Place, client_at

pytestmark = pytest.mark.mission("ENG-24")
ANN = person("ann", "employee")
TRAIN = {"amount": 40, "purpose": "train"}


async def test_an_instance_lives_from_create_to_its_end(place: Place) -> None:
    """Create, send, read, list and history give typed values that agree with each other."""
    async with place.client() as client:
        made = await client.create("Expense", "e1", TRAIN)
        sent = await client.send("e1", "submit", reason="due", expected_seq=made.seq)
        found = await client.get("e1")
        ended = await client.send("e1", "approve", {"note": "fine"})
        lines = await client.all("history", "e1")
        listed = await client.all("list", chart="Expense", ended=True)
    assert made == Standing(
        id="e1", chart="Expense", version=1, seq=1, status="draft", states=("draft",), ended=False
    )
    assert (sent.status, found.states, found.context) == ("review", ("review",), TRAIN)
    assert (ended.status, ended.ended) == ("approved", True)
    assert [(line.event, line.after, line.reason) for line in lines[1:]] == [
        ("submit", "review", "due"),
        ("approve", "approved", None),
    ]
    assert lines[0].at == listed[0].created_at
    assert [each.id for each in listed] == ["e1"]


async def test_what_is_possible_and_why_not(place: Place) -> None:
    """`allowed` names the events and for whom, `why` says it for people."""
    async with place.client() as client:
        await client.create("Expense", "e1", TRAIN)
        allowed = await client.allowed("e1")
        why = await client.why("e1")
    assert [(each.event, each.yours) for each in allowed] == [("submit", True), ("withdraw", True)]
    assert "e1 is in draft" in str(why)
    assert not why.stuck


async def test_an_instance_is_cancelled(place: Place) -> None:
    """By the event that its chart names, with a reason."""
    async with place.client() as client:
        name = (await client.create("Expense", context=TRAIN)).id
        ended = await client.cancel(name, reason="no journey")
        lines = await client.all("history", name)
    assert (ended.status, lines[-1].reason) == ("withdrawn", "no journey")


async def test_pages_are_read_as_they_are_needed(place: Place) -> None:
    """An iterator over more than a page gives all, each once, in order; a filter by a boolean works."""
    async with place.client() as client:
        names = [(await client.create("Counter", f"c{number}")).id for number in range(5)]
        found = await client.all("list", chart="Counter", ended=False, per_page=2)
    assert [each.id for each in found] == names


async def test_a_refused_event_says_what_is_possible(place: Place) -> None:
    """The error has the state, the events that it would accept, and the reason of each guard."""
    async with place.client() as client:
        await client.create("Expense", "e1", {"amount": 40})
        with pytest.raises(EventRefusedError) as illegal:
            await client.send("e1", "approve")
        with pytest.raises(EventRefusedError) as guarded:
            await client.send("e1", "submit")
        assert (await client.get("e1")).seq == 1
    assert (illegal.value.code, illegal.value.status) == ("illegal", 409)
    assert (illegal.value.states, illegal.value.allowed) == (("draft",), ("submit", "withdraw"))
    assert guarded.value.reasons == ("say what it is for",)
    assert not illegal.value.maybe_committed


async def test_a_role_that_is_missing_is_a_refusal(place: Place) -> None:
    """The chart refuses it, so the error says who may."""
    async with place.client() as client:
        await client.create("Expense", "e1", TRAIN)
        await client.send("e1", "submit")
    async with place.client("send", actor=ANN) as client:
        with pytest.raises(EventRefusedError) as refused:
            await client.send("e1", "approve")
    assert (refused.value.status, refused.value.code) == (403, "actor")


async def test_errors_are_told_apart_by_class(place: Place) -> None:
    """Not found, conflict, wrong version, no scope, no such key, wrong data."""
    async with place.client() as client:
        await client.create("Counter", "c1")
        for kind, call in (
            (NotFoundError, client.get("c2")),
            (NotFoundError, client.create("Nothing")),
            (CallConflictError, client.create("Counter", "c1")),
            (CallConflictError, client.send("c1", "flip", expected_seq=7)),
            (ProblemError, client.create("Expense", context={"amount": "much"})),
        ):
            with pytest.raises(kind) as failed:
                await call
            assert type(failed.value) is kind
    async with place.client("read") as client:
        with pytest.raises(ForbiddenError, match="scope send"):
            await client.send("c1", "flip")
    async with client_at(place.service.url, "hw_wrong", place.form) as client:
        with pytest.raises(UnauthenticatedError):
            await client.get("c1")
        assert client.pauses == []


@pytest.mark.parametrize("name", ["a/b", "a%2Fb", "ü ?#", "..x"])
async def test_any_name_finds_its_instance(place: Place, name: str) -> None:
    """Names are encoded, however they look."""
    async with place.client() as client:
        await client.create("Counter", name)
        assert (await client.get(name)).id == name
        assert [line.after for line in await client.all("history", name)] == ["on"]


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_a_name_that_is_another_path_is_not_sent(place: Place, name: str) -> None:
    """Otherwise the call would be about something else."""
    async with place.client() as client:
        with pytest.raises(InputError):
            await client.get(name)


async def test_until_waits_for_a_state(place: Place) -> None:
    """It looks again until the instance is there, and gives it."""
    async with place.client() as client, place.client() as other:
        await client.create("Expense", "e1", TRAIN)
        client.on_pause = lambda: other.send("e1", "submit") if len(client.pauses) == 2 else None
        found = await client.until("e1", "review")
    assert (found.status, client.pauses) == ("review", [0.05, 0.1])


async def test_until_gives_an_instance_that_has_ended(place: Place) -> None:
    """Nothing else will come."""
    async with place.client() as client:
        await client.create("Expense", "e1", TRAIN)
        await client.cancel("e1")
        assert (await client.until("e1", "review")).ended


async def test_until_ends_with_its_time(place: Place) -> None:
    """A limit in seconds, by the clock."""
    times = iter([0.0, 4.0, 9.99, 10.0])
    async with place.client(monotonic=lambda: next(times)) as client:
        await client.create("Counter", "c1")
        with pytest.raises(TimeoutError, match="c1 is still in on"):
            await client.until("c1", "off", timeout=10)
    assert client.pauses == [0.05, pytest.approx(0.01)]


async def test_until_refuses_a_state_that_the_chart_does_not_have(place: Place) -> None:
    """A misspelt name would wait for ever."""
    async with place.client() as client:
        await client.create("Counter", "c1")
        with pytest.raises(InputError, match="no state of"):
            await client.until("c1", "of")


async def test_what_json_cannot_hold_is_not_sent(place: Place) -> None:
    """A number that is not finite would arrive as null."""
    async with place.client() as client:
        with pytest.raises(InputError):
            await client.create("Expense", context={"amount": float("nan")})
