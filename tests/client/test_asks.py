"""The calls about asks, in both forms of the client, against the real service."""

import pytest

from headway.errors import CallConflictError, EventRefusedError, NotFoundError
from tests.api.asking import ANN, BOB
from tests.client.conftest import Place

pytestmark = pytest.mark.mission("ENG-24")
GRANT = {"amount": 50}


async def test_an_ask_is_found_claimed_and_answered(place: Place) -> None:
    """The inbox has it, one call shows its form, a claim keeps others away, an answer moves the instance."""
    async with place.client(actor=ANN) as ann, place.client(actor=BOB) as bob:
        await ann.create("Leave", "l1")
        [found] = await ann.all("inbox")
        shown = await ann.ask(found.id)
        await ann.claim(found.id, lasts="15m")
        with pytest.raises(EventRefusedError) as claimed:
            await bob.answer(found.id, "grant", GRANT)
        await ann.release(found.id)
        answered = await bob.answer(found.id, "grant", GRANT, reason="deserved")
        assert await ann.all("inbox") == []
        closed = await ann.ask(found.id)
    assert (found.instance, found.roles, found.answers) == ("l1", ("manager",), ("grant", "refuse"))
    assert shown.form is not None
    assert set(shown.form["properties"]) == {"amount", "note"}
    assert shown.yours == ("grant", "refuse")
    assert claimed.value.code == "claimed"
    assert (answered.status, closed.closed_by) == ("granted", "bob")


async def test_an_ask_is_delegated(place: Place) -> None:
    """Then only the other person can answer it."""
    async with place.client(actor=ANN) as ann, place.client(actor=BOB) as bob:
        await ann.create("Leave", "l1")
        [found] = await ann.all("inbox")
        await ann.delegate(found.id, to="bob")
        with pytest.raises(EventRefusedError):
            await ann.answer(found.id, "grant", GRANT)
        assert [each.delegated_to for each in await bob.all("inbox")] == ["bob"]
        assert (await bob.answer(found.id, "refuse", GRANT)).status == "refused"


async def test_a_link_is_made_once(place: Place) -> None:
    """Its token answers without a login; a repeat of the call is told that the token was shown already."""
    async with place.client() as client:
        await client.create("Leave", "l1")
        [found] = await place.service.node.asks.of_instance("default", "l1")
        link = await client.link(found.id, person="eve", roles=["manager"], lasts="2d", request_id="once")
        with pytest.raises(CallConflictError) as again:
            await client.link(found.id, person="eve", roles=["manager"], lasts="2d", request_id="once")
        with pytest.raises(NotFoundError):
            await client.ask("other")
    opened = await place.service.client.get(f"/v1/links/{link.token}")
    assert (link.person, link.roles, opened.status_code) == ("eve", ("manager",), 200)
    assert (again.value.code, again.value.maybe_committed) == ("secret_told", True)
