"""A chart that another node brings later: nodes that were there limit its readers, too."""

import json

import pytest

from headway import State, Statechart, person
from headway.node import Node
from tests.api.serving import serving

pytestmark = pytest.mark.mission("ENG-20", "ENG-14", "ENG-21")

ANN, BOB = person("ann"), person("bob")


class Open(Statechart):
    """Everybody may read it."""

    here = State(initial=True)
    note = here.stay()


class Secret(Statechart, owner="{creator}", read_by="auditor"):
    """Its owner and auditors may read it."""

    here = State(initial=True)
    note = here.stay(by="{owner}")


class LaterOpen(Statechart, name="Open", version=2, owner="{creator}", read_by="auditor"):
    """A later version that limits who may read it."""

    here = State(initial=True)
    note = here.stay()


@pytest.mark.parametrize("later", [Secret, LaterOpen])
async def test_a_later_chart_limits_lists_and_open_streams(database: str, later: type[Statechart]) -> None:
    """A list leaves its instances out; an open stream ends before their first event."""
    async with serving(database, [Open]) as old, old.as_("read", actor=BOB) as client:
        await old.node.tenant().create(Open, "o1", by=ANN)
        assert [each["id"] for each in (await client.get("/v1/instances")).json()["items"]] == ["o1"]
        async with client.stream("GET", "/v1/events") as stream:
            lines = stream.aiter_lines()
            await anext(line async for line in lines if line == ": welcome")
            async with Node(database, [later]) as new:
                await new.tenant().create(later, "s1", by=ANN)
                first = await anext(line async for line in lines if line.startswith("data:"))
                assert json.loads(first[5:]).get("code") == "unavailable"
                listed = [each["id"] for each in (await client.get("/v1/instances")).json()["items"]]
                assert "s1" not in listed
                assert (await client.get("/v1/instances/s1")).status_code == 404


async def test_a_list_alone_limits_what_streams_show(database: str) -> None:
    """The first read of the new chart is not the stream's, which ends all the same."""
    async with serving(database, [Open]) as old, old.as_("read", actor=BOB) as client:
        async with client.stream("GET", "/v1/events") as stream:
            lines = stream.aiter_lines()
            await anext(line async for line in lines if line == ": welcome")
            async with Node(database, [Secret]) as new:
                assert (await client.get("/v1/instances")).json()["items"] == []
                await new.tenant().create(Secret, "s1", by=ANN)
                first = await anext(line async for line in lines if line.startswith("data:"))
        assert json.loads(first[5:]).get("code") == "unavailable"
