"""A service that is killed in the middle of a call: the error tells the truth, a repeat runs it once."""

import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.errors import ServiceUnavailableError
from tests.api.dying import AFTER, place
from tests.client.conftest import client_at
from tests.client.either import Either, Form

pytestmark = pytest.mark.mission("ENG-24", "ENG-6")


@pytest.fixture
def database(tmp_path: Path) -> str:
    """The address of a database that the processes share."""
    return f"sqlite:///{tmp_path}/headway.db"


@contextlib.asynccontextmanager
async def client_of(database: str, form: Form, deadly: str = "") -> AsyncIterator[Either]:
    """A client of a service in a process of its own; it tries once."""
    async with place(database, deadly) as where, client_at(**where, form=form, retries=0) as client:
        yield client


@pytest.mark.parametrize("deadly", ["f1", AFTER + "f1"], ids=["before the commit", "after the commit"])
async def test_a_lost_answer_may_have_been_committed(database: str, form: Form, deadly: str) -> None:
    """The error says so, with the id by which a repeat is carried out exactly once."""
    async with client_of(database, form, deadly) as client:
        await client.create("Fragile", "f1")
        with pytest.raises(ServiceUnavailableError) as lost:
            await client.send("f1", "push")
    assert lost.value.maybe_committed
    assert lost.value.request_id
    assert lost.value.request_id in str(lost.value)
    async with client_of(database, form) as client:
        found = await client.get("f1")
        assert found.seq == (2 if deadly.startswith(AFTER) else 1)
        repeated = await client.send("f1", "push", request_id=lost.value.request_id)
        again = await client.send("f1", "push", request_id=lost.value.request_id)
        counters = (await client.get("f1")).counters
    assert (repeated.seq, again, counters) == (2, repeated, {"pushes": 1})


async def test_a_service_that_is_not_there_has_committed_nothing(form: Form) -> None:
    """The request was not sent, and the error does not raise doubts."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with client_at(f"http://127.0.0.1:{port}", "hw_any", form, retries=1) as client:
        with pytest.raises(ServiceUnavailableError, match="cannot be reached") as away:
            await client.send("f1", "push")
    assert not away.value.maybe_committed
    assert client.pauses == [0.25]


@pytest.mark.parametrize("deadly", ["f1", AFTER + "f1"], ids=["before the commit", "after the commit"])
async def test_a_call_outlives_its_service(database: str, form: Form, deadly: str) -> None:
    """If the service is back before the last try, the caller gets the answer and notices nothing."""
    async with contextlib.AsyncExitStack() as stack:
        async with client_of(database, form) as client:
            await client.create("Fragile", "f1")
        where = await stack.enter_async_context(place(database, deadly))
        port = int(where["url"].rpartition(":")[2])
        client = await stack.enter_async_context(client_at(**where, form=form))
        client.on_pause = lambda: stack.enter_async_context(place(database, port=port))
        sent = await client.send("f1", "push")
        assert (sent.seq, (await client.get("f1")).counters) == (2, {"pushes": 1})
    assert client.pauses == [0.25]
