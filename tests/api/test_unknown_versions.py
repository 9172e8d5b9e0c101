"""A service whose node does not know the version of an instance says so, and changes nothing."""

import pytest

from headway import Ask, Final, State, Statechart, person
from headway.node import Node
from headway.statechart.snapshot import Event
from tests.api.serving import ROOT, serving

pytestmark = pytest.mark.mission("ENG-21", "ENG-2")


class Claim(Statechart, name="Claim", version=1, cancel="stop"):
    """A claim that waits for a clerk."""

    open_ = State(initial=True, ask=Ask("manager", deadline="2d"))
    paid, stopped = Final(), Final()
    pay = open_.to(paid, by="manager")
    late = open_.on_deadline.to(stopped)
    stop = open_.to(stopped)


class NewClaim(Statechart, name="Claim", version=2, cancel="stop"):
    """A claim of a later version."""

    open_ = State(initial=True, ask=Ask("manager", deadline="3d"))
    paid, stopped = Final(), Final()
    pay = open_.to(paid, by="manager")
    late = open_.on_deadline.to(stopped)
    stop = open_.to(stopped)


CALLS = [
    ("GET", "/v1/instances/c1", None),
    ("GET", "/v1/instances/c1/why", None),
    ("GET", "/v1/instances/c1/allowed", None),
    ("POST", "/v1/instances/c1/events", {"event": "pay"}),
    ("POST", "/v1/instances/c1/cancel", {}),
    ("POST", "/v1/asks/{ask}/claim", {}),
    ("POST", "/v1/asks/{ask}/answer", {"answer": "pay"}),
]


async def test_calls_for_an_unknown_version_are_503_and_name_it(database: str) -> None:
    """The client is to try again elsewhere; the instance stands where it stood."""
    async with (
        serving(database, [Claim]) as old,
        Node(database, [NewClaim], name="new") as new,
    ):
        tenant = new.tenant()
        await tenant.create("Claim", "c1")
        before = await tenant.get("c1")
        [ask] = (await old.client.get("/v1/asks")).json()["items"]
        for method, path, body in CALLS:
            answer = await old.client.request(method, path.format(ask=ask["id"]), json=body)
            problem = answer.json()
            assert answer.status_code == 503, (path, problem)
            assert (problem["code"], problem["chart"], problem["version"]) == ("unknown_version", "Claim", 2)
            assert answer.headers["retry-after"] == "1"
        assert (await old.client.get("/v1/instances/c1/history")).status_code == 200
        assert [row["id"] for row in (await old.client.get("/v1/instances")).json()["items"]] == ["c1"]
        assert await tenant.get("c1") == before
        (await new.engine.send("default", "c1", Event("stop", by=ROOT))).unwrap()
        assert (await old.client.get("/v1/instances/c1")).status_code == 200


async def test_readiness_names_versions_that_the_node_does_not_know(database: str) -> None:
    """With the nodes that know them; the node is ready all the same, for what it knows."""
    async with Node(database, [NewClaim], name="new") as new:
        await new.tenant().create("Claim", "c1")
        async with serving(database, [Claim]) as old:
            answer = await old.client.get("/ready")
            unknown = {"chart": "Claim", "version": 2, "nodes": ["new"]}
            assert (answer.status_code, answer.json()) == (
                200,
                {"status": "ready", "unknown_versions": [unknown]},
            )


class Hidden(Statechart, owner="{creator}", read_by="auditor", cancel="drop"):
    """A claim that its owner and auditors may read."""

    open_, gone = State(initial=True), Final()
    drop = open_.to(gone, by="{owner}")


@pytest.mark.mission("ENG-20")
async def test_a_stranger_learns_of_no_instance_of_an_unknown_version(database: str) -> None:
    """Who must not learn of it is answered as for an id that is not there; its owner is to try elsewhere."""
    async with serving(database, [Claim]) as old, Node(database, [Hidden]) as new:
        await new.tenant().create(Hidden, "h1", by=person("ann"))
        for scope, actor, status in (
            ("own", person("mal"), 404),
            ("send", person("mal"), 404),
            ("own", person("ann"), 503),
            ("send", person("otto", "auditor"), 503),
        ):
            async with old.as_(scope, actor=actor) as client:
                for path in ("events", "cancel"):
                    body = {"event": "drop"} if path == "events" else {}
                    answer = await client.post(f"/v1/instances/h1/{path}", json=body)
                    assert (actor.id, path, answer.status_code) == (actor.id, path, status)
                    if status == 404:
                        nowhere = await client.post(f"/v1/instances/h2/{path}", json=body)
                        assert answer.text.replace("h1", "h2") == nowhere.text
