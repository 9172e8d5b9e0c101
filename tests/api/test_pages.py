"""Pages of lists end by rows and by bytes; nothing is lost between two of them."""

from typing import Any

import httpx
import pytest

from headway import Actor, Ask, Final, State, Statechart, View
from headway.api.cursors import MOST_BYTES
from tests.api.serving import serving

pytestmark = pytest.mark.mission("ENG-14")
LARGE = "x" * 900_000
READER = Actor("mia", "person", frozenset({"manager"}))
ROOM = MOST_BYTES // len(LARGE)


def keep(view: View) -> dict[str, Any]:
    """The payload, into the context."""
    return {"text": view.payload}


class Note(Statechart):
    """A note that a manager reads; each writing stands in its history."""

    unread = State(initial=True, ask=Ask("manager", shows=("text",)))
    closed = Final()
    write = unread.to(unread, do=keep)
    close = unread.to(closed, by="manager")


async def pages(client: httpx.AsyncClient, path: str, limit: int = 100) -> list[list[dict[str, Any]]]:
    """All pages of a list, each not too large."""
    found, cursor = [], ""
    while True:
        answer = await client.get(f"{path}?limit={limit}{cursor}")
        assert answer.status_code == 200, answer.text
        assert len(answer.content) < MOST_BYTES + 100_000
        found.append(answer.json()["items"])
        if answer.json()["next"] is None:
            return found
        cursor = f"&cursor={answer.json()['next']}"


async def test_large_rows_make_short_pages(database: str) -> None:
    """History and asks come in pages of bounded size, in order, with no row left out or doubled."""
    async with serving(database, [Note]) as service, service.as_("read", "send", actor=READER) as client:
        for number in range(12):
            begun = {"chart": "Note", "id": f"n{number}", "context": {"text": f"{number}{LARGE}"}}
            assert (await client.post("/v1/instances", json=begun)).status_code == 201
            written = {"event": "write", "data": f"{number}{LARGE}"}
            assert (await client.post("/v1/instances/n0/events", json=written)).status_code == 200
        history = await pages(client, "/v1/instances/n0/history")
        assert [row["seq"] for page in history for row in page] == list(range(1, 14))
        assert max(map(len, history)) <= ROOM + 1
        asks = await pages(client, "/v1/asks")
        assert sorted(ask["instance"] for page in asks for ask in page) == sorted(f"n{n}" for n in range(12))
        assert len(asks) > 1
        instances = await pages(client, "/v1/instances")
        assert [row["id"] for page in instances for row in page] == [f"n{n}" for n in range(12)]


async def test_small_rows_fill_their_pages(database: str) -> None:
    """A page of small rows has as many as were asked for, however the store was read."""
    async with serving(database, [Note]) as service:
        for number in range(95):
            await service.node.engine.create("default", f"n{number}", "Note")
        for limit in (1, 19, 20, 21, 94, 95, 96, 500):
            found = await pages(service.client, "/v1/instances", limit)
            assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
            assert [row["id"] for page in found for row in page] == [f"n{n}" for n in range(95)]
