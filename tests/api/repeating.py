"""A request for each POST route of the service and of the lifecycles, to be repeated."""

from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any, NamedTuple

from fastapi.routing import APIRoute, iter_route_contexts

from headway import Actor
from headway.api.app import ROUTERS
from headway.api.parameters import Needs
from headway.codec import replace
from headway.lifecycles.supervision.lifecycle import supervision
from headway.lifecycles.task_runs.lifecycle import task_runs
from headway.statechart.chart import Charted
from headway.store.queries import Settlement
from headway.store.rows import Cursor
from tests.api import charts
from tests.api.asking import Leave
from tests.api.dying import Working
from tests.api.serving import Service
from tests.lifecycles.task_runs.team import runners
from tests.store.contract.place import letter

LIFECYCLES = (supervision(), task_runs(runners))
LIFECYCLE_ROUTERS = tuple(router for lifecycle in LIFECYCLES for router in lifecycle.routers)
CHARTS: tuple[Charted, ...] = (
    *(*charts.CHARTS, Leave, Working),
    *(chart for each in LIFECYCLES for chart in each.charts),
)
ROLES = ("manager", "employee", "user", "admin", "supervisor", "system")
ANYONE = Actor("ann", "person", frozenset(ROLES))
NEW_KEY = {"actor": {"id": "bot", "kind": "service", "roles": []}, "scopes": ["read"], "name": "bot"}
ANSWER = {"answer": "grant", "data": {"amount": 50}}
JOB = {"task_description": "echo"}
RUN = {"runner": "listed", "dispatch": False}
FLOW = {"nodes": {"a": {"runner": "listed"}}, "start": False}
NUMBERS = count(1)


class Case(NamedTuple):
    """A request, and another body for the same path."""

    path: str
    body: Any = None
    other: Any = ()


Prepare = Callable[[Service], Awaitable[Case]]


def post_operations() -> Iterator[str]:
    """The POST operations that take an idempotency key: all that need a credential."""
    for router in (*ROUTERS, *LIFECYCLE_ROUTERS):
        for context in iter_route_contexts(router.routes):
            route = context.original_route
            if (
                isinstance(route, APIRoute)
                and "POST" in (route.methods or ())
                and any(isinstance(each.dependency, Needs) for each in route.dependencies)
            ):
                yield str(route.operation_id)


async def made(service: Service, path: str, body: Any = None) -> str:
    """The id of what a request makes."""
    answer = await service.client.post(path, json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def instance(service: Service, chart: str, **context: Any) -> str:
    """A new instance."""
    return await made(service, "/v1/instances", {"chart": chart, "context": context})


def fixed(path: str, body: Any, other: Any) -> Prepare:
    """A request that needs nothing before it."""

    async def prepare(_service: Service) -> Case:
        return Case(path, body, other)

    return prepare


def of_instance(verb: str, body: Any, other: Any) -> Prepare:
    """A request about an instance."""

    async def prepare(service: Service) -> Case:
        name = await instance(service, "Expense", amount=1, purpose="train")
        return Case(f"/v1/instances/{name}/{verb}", body, other)

    return prepare


def of_ask(verb: str, body: Any, other: Any = ()) -> Prepare:
    """A request about an open ask."""

    async def prepare(service: Service) -> Case:
        name = await instance(service, "Leave", purpose="sea")
        [ask] = await service.node.asks.of_instance("default", name)
        if verb == "release":
            (await service.client.post(f"/v1/asks/{ask.id}/claim")).raise_for_status()
        return Case(f"/v1/asks/{ask.id}/{verb}", body, other)

    return prepare


def of_key(verb: str, body: Any = None, other: Any = ()) -> Prepare:
    """A request about an API key."""

    async def prepare(service: Service) -> Case:
        return Case(f"/v1/keys/{await made(service, '/v1/keys', NEW_KEY)}/{verb}", body, other)

    return prepare


async def claim(service: Service) -> Case:
    """A claim of work that there is."""
    await instance(service, "Working")
    body = {"worker": "w", "handlers": ["pay"]}
    return Case("/v1/work/claim", body, {**body, "limit": 2})


def of_work(verb: str, **more: Any) -> Prepare:
    """A request about work that its worker holds."""

    async def prepare(service: Service) -> Case:
        asked = await claim(service)
        [item] = (await service.client.post(asked.path, json=asked.body)).json()["items"]
        body = {"worker": "w", "attempt": item["attempt"], **more}
        return Case(f"/v1/work/{item['id']}/{verb}", body, {**body, "worker": "v"})

    return prepare


async def retry(service: Service) -> Case:
    """A retry of work that waits."""
    released = await of_work("release", after="1h")(service)
    (await service.client.post(released.path, json=released.body)).raise_for_status()
    return Case(f"/v1/operations/work/{released.path.split('/')[3]}/retry")


def of_letters(verb: str) -> Prepare:
    """A request about dead letters."""

    async def prepare(service: Service) -> Case:
        store, first = service.node.engine.store, 10 * next(NUMBERS)
        rows = tuple(replace(letter(first + each, dead=True), tenant="default") for each in range(3))
        assert await store.leases.hold([("", "a")], "relay", 60_000)
        assert await store.messages.settle(Settlement("a", "relay", Cursor(), rows))
        body = {"destination": "a", "limit": 1, "dry_run": False}
        return Case(f"/v1/operations/letters/{verb}", body, {**body, "limit": 2})

    return prepare


async def bulk(service: Service) -> Case:
    """An event for many instances."""
    await instance(service, "Counter")
    body = {"action": "send", "filter": {"chart": "Counter"}, "event": "flip", "dry_run": False}
    return Case("/v1/operations/bulk", body, {**body, "event": "flop"})


def of_made(maker: str, new: Any, path: str, *, body: Any, other: Any) -> Prepare:
    """A request about something that another request makes."""

    async def prepare(service: Service) -> Case:
        return Case(path.format(await made(service, maker, new)), body, other)

    return prepare


async def process_action(service: Service) -> Case:
    """What a process is refused; refusals are repeated too."""
    context = {"name": "p", "runner": "listed"}
    name = await instance(service, "task_runs.process", **context)
    return Case(f"/task-processes/{name}/apply-action", {"action": "retry"}, {"action": "resume"})


OTHER_REASON = {"reason": "another"}
CASES: dict[str, Prepare] = {
    "create_instance": fixed("/v1/instances", {"chart": "Counter"}, {"chart": "Leave"}),
    "send_event": of_instance("events", {"event": "submit"}, {"event": "withdraw"}),
    "cancel_instance": of_instance("cancel", {"reason": "a"}, {"reason": "b"}),
    "claim_ask": of_ask("claim", {"lasts": "1h"}, {"lasts": "2h"}),
    "release_ask": of_ask("release", None),
    "delegate_ask": of_ask("delegate", {"to": "eve"}, {"to": "bob"}),
    "answer_ask": of_ask("answer", ANSWER, {**ANSWER, "answer": "refuse"}),
    "make_link": of_ask("link", {"person": "eve"}, {"person": "bob"}),
    "make_key": fixed("/v1/keys", NEW_KEY, {**NEW_KEY, "name": "other"}),
    "rotate_key": of_key("rotate", {"overlap": "1h"}, {"overlap": "2h"}),
    "revoke_key": of_key("revoke"),
    "claim_work": claim,
    "heartbeat": of_work("heartbeat", progress=0.5, checkpoint=1),
    "checkpoint_work": of_work("checkpoint", checkpoint=1),
    "complete_work": of_work("complete", result=1),
    "fail_work": of_work("fail", code="FLAKY"),
    "release_work": of_work("release"),
    "retry_work": retry,
    "redrive_letters": of_letters("redrive"),
    "discard_letters": of_letters("discard"),
    "change_many": bulk,
    "supervision_create_worker": fixed("/api/workers", {}, {"capacity": 2}),
    "supervision_move_worker": of_made(
        "/api/workers", {}, "/api/workers/{}/start", body={}, other=OTHER_REASON
    ),
    "supervision_supervise_worker": of_made(
        "/api/workers", {}, "/api/supervisor/workers/{}/terminate", body={}, other=OTHER_REASON
    ),
    "supervision_submit_job": fixed("/api/jobs", JOB, {**JOB, "worker_count": 2}),
    "supervision_move_job": of_made("/api/jobs", JOB, "/api/jobs/{}/cancel", body={}, other=OTHER_REASON),
    "supervision_supervise_job": of_made(
        "/api/jobs", JOB, "/api/supervisor/jobs/{}/cancel", body={}, other=OTHER_REASON
    ),
    "create_task_run": fixed("/task-runs", RUN, {**RUN, "config": {"a": 1}}),
    "apply_task_run_action": of_made(
        "/task-runs", RUN, "/task-runs/{}/apply-action", body={"action": "restart"}, other={"action": "retry"}
    ),
    "apply_task_process_action": process_action,
    "create_workflow_run": fixed("/workflow-runs", FLOW, {**FLOW, "start": True}),
    "apply_workflow_run_action": of_made(
        "/workflow-runs",
        FLOW,
        "/workflow-runs/{}/apply-action",
        body={"action": "start"},
        other={"action": "retry"},
    ),
}
"""How to prepare a request of each operation."""
