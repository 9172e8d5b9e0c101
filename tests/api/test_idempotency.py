"""Every POST can be repeated by its key: one effect, the same answer, and no other request by that key."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import httpx
import pytest

from headway.engine.requests import Request, Requests, StoredAnswer
from headway.store.rows import RequestRow
from headway.store.unit import Found, Reads
from tests.api.repeating import ANYONE, CASES, CHARTS, LIFECYCLE_ROUTERS, NEW_KEY, Case, post_operations
from tests.api.serving import Service, serving

pytestmark = pytest.mark.mission("ENG-2", "ENG-6")
SECRETS = frozenset({"make_key", "rotate_key", "make_link"})
OWN_HEADERS = ("content-type", "etag", "location", "cache-control")
REPLAYED = "Idempotency-Replayed"


@pytest.fixture
def service(database: str, runner: asyncio.Runner) -> Iterator[Service]:
    """A service with the routes of the lifecycles; nobody does its work."""
    stack = AsyncExitStack()
    own = serving(database, CHARTS, routers=LIFECYCLE_ROUTERS, actor=ANYONE)
    yield runner.run(stack.enter_async_context(own))
    runner.run(stack.aclose())


async def post(service: Service, case: Case, key: str, body: Any = ...) -> httpx.Response:
    """The answer to a request with a key."""
    told = case.body if body is ... else body
    return await service.client.post(case.path, json=told, headers={"Idempotency-Key": key})


def test_every_post_operation_is_tried() -> None:
    """A new route is repeated by the tests here, or this one fails."""
    assert sorted(post_operations()) == sorted(CASES)


@pytest.mark.parametrize("operation", CASES)
async def test_a_repeat_gets_the_first_answer(service: Service, operation: str) -> None:
    """Byte for byte and marked as one, unless it held a secret; another body or path is 422."""
    case = await CASES[operation](service)
    first, again = await post(service, case, "k"), await post(service, case, "k")
    assert first.status_code in {200, 201, 409}, first.text
    assert (first.headers.get(REPLAYED), again.headers.get(REPLAYED)) == (None, "true")
    if operation in SECRETS:
        assert (first.is_success, again.status_code, again.json()["code"]) == (True, 409, "secret_told")
    else:
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert [again.headers.get(name) for name in OWN_HEADERS] == [
            first.headers.get(name) for name in OWN_HEADERS
        ]
    others = [Case("/v1/instances", {"chart": "Counter", "id": "another"}), case._replace(body=case.other)]
    for other in others[: 1 if case.other == () else 2]:
        reused = await post(service, other, "k")
        assert (reused.status_code, reused.json()["code"]) == (422, "key_reused"), other
    assert (await service.client.get("/v1/instances/another")).status_code == 404


@pytest.mark.parametrize("operation", CASES)
async def test_of_many_at_once_one_is_carried_out(service: Service, operation: str) -> None:
    """The others wait for it, and get its answer."""
    case = await CASES[operation](service)
    answers = await asyncio.gather(*(post(service, case, "k") for _ in range(5)))
    assert sorted(answer.headers.get(REPLAYED, "") for answer in answers) == ["", *["true"] * 4]
    if operation in SECRETS:
        assert sorted(answer.is_success for answer in answers) == [False] * 4 + [True]
    else:
        assert len({(answer.status_code, answer.content) for answer in answers}) == 1


async def test_an_answer_to_an_ask_costs_one_store_call_and_one_row(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is stored with its effect: nothing else is asked of the store."""
    case = await CASES["answer_ask"](service)
    store, calls = service.node.engine.store, Counter[str]()
    await post(service, Case("/v1/instances", {"chart": "Counter"}), "warm")
    rows: list[RequestRow] = []
    service.node.engine.watch(lambda changes: rows.extend(changes.requests))
    nouns = {"": ("run", "submit"), "asks": ("get", "page"), "instances": ("get", "page", "look_up")}
    for noun, names in {**nouns, "leases": ("hold", "get"), "requests": ("prune",)}.items():
        place = getattr(store, noun) if noun else store
        for name in names:
            monkeypatch.setattr(place, name, _counted(calls, f"{noun}.{name}", getattr(place, name)))
    answer = await post(service, case, "k")
    assert answer.status_code == 200, answer.text
    assert calls.pop(".run", 0) <= 1  # on PostgreSQL it is what `submit` does
    assert calls == {".submit": 1}
    assert [row.key for row in rows] == ["http:k"]


def _counted(calls: Counter[str], name: str, call: Any) -> Any:
    def counted(*given: Any, **named: Any) -> Any:
        calls[name] += 1
        return call(*given, **named)

    return counted


async def stored(service: Service, key: str) -> tuple[str, timedelta]:
    """The stored answer for a key, and how long it lasts."""
    read = Rows(("default", f"http:{key}"))
    await service.node.engine.store.run(read)
    return read.row.answer, read.row.expires_at - read.now


class Rows(StoredAnswer):
    """A unit that reads the stored answer of any request."""

    def __init__(self, name: tuple[str, str]) -> None:
        super().__init__(Request(name, ""))
        self._name = name

    def begin(self) -> Reads:
        """Read it."""
        return Reads(requests={self._name})

    def take(self, found: Found) -> None:
        """Whoever asked for it."""
        self.row, self.now = found.requests[self._name], found.now


@pytest.mark.parametrize("operation", sorted(SECRETS))
async def test_a_secret_is_shown_once_and_stored_nowhere(service: Service, operation: str) -> None:
    """The database has neither the key's text nor the link's token."""
    case = await CASES[operation](service)
    answer = (await post(service, case, "k")).json()
    secret = answer.get("token") or answer["key"].rpartition("_")[2]
    assert secret not in (await stored(service, "k"))[0]


@pytest.mark.parametrize(
    ("operation", "hours"),
    [
        *((each, 24) for each in ("create_instance", "make_key", "make_link", "change_many")),
        *((each, 1) for each in ("send_event", "answer_ask", "rotate_key", "revoke_key", "claim_work")),
    ],
)
async def test_an_answer_is_stored_by_what_the_request_does(
    service: Service, operation: str, hours: int
) -> None:
    """What makes something new is remembered for a day, what changes something that is there for an hour."""
    await post(service, await CASES[operation](service), "k")
    lasts = (await stored(service, "k"))[1]
    assert timedelta(hours=hours) - timedelta(minutes=1) < lasts <= timedelta(hours=hours)


async def test_an_answer_that_has_expired_is_none(service: Service) -> None:
    """Though its row has not been pruned yet."""
    request = Request(("default", "old"), "asked")
    now = await service.node.engine.store.now()
    unit = StoredAnswer(request)
    row = RequestRow("default", "old", "asked", "answer", now)
    for at, answer in ((now - timedelta(seconds=1), "answer"), (now, None)):
        unit.take(Found(at, {}, {request.name: row}, {}, {}))
        assert unit.answer == answer


@pytest.mark.parametrize(
    ("operation", "wrong"), [("make_key", {"scopes": []}), ("answer_ask", {"answer": ""})]
)
async def test_a_request_that_was_wrong_may_be_corrected_under_its_key(
    service: Service, operation: str, wrong: dict[str, Any]
) -> None:
    """A request that was refused before anything happened does not use its key up."""
    case = await CASES[operation](service)
    assert (await post(service, case, "k", {**case.body, **wrong})).status_code == 422
    assert (await post(service, case, "k")).is_success


async def test_a_key_belongs_to_one_tenant_and_one_actor(service: Service) -> None:
    """Another tenant may use the same key; another actor of the tenant may not."""
    case = await CASES["make_key"](service)
    assert (await post(service, case, "k")).status_code == 201
    headers = {"Idempotency-Key": "k"}
    async with service.as_("admin", tenant="other") as other, service.as_("admin") as root:
        assert (await other.post(case.path, json=case.body, headers=headers)).status_code == 201
        assert (await root.post(case.path, json=case.body, headers=headers)).json()["code"] == "key_reused"


async def test_a_stored_answer_needs_the_scope_of_its_route(service: Service) -> None:
    """Who may not make a key is not told of one either."""
    case = await CASES["make_key"](service)
    assert (await post(service, case, "k")).status_code == 201
    async with service.as_("read", actor=ANYONE) as reader:
        refused = await reader.post(case.path, json=case.body, headers={"Idempotency-Key": "k"})
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


async def test_a_key_that_is_reused_is_told_in_the_callers_words(service: Service) -> None:
    """What the service puts before the key of a request is not told."""
    body = {"chart": "Counter", "id": "c1"}
    assert (await post(service, Case("/v1/instances", body), "k")).status_code == 201
    again = await post(service, Case("/v1/instances", {**body, "id": "c2"}), "k")
    assert (again.status_code, again.json()["code"]) == (422, "key_reused")
    assert "http:" not in again.text


async def test_the_same_json_is_the_same_request(service: Service) -> None:
    """Spaces and the order of keys do not matter; a value that differs does."""
    send = {"Content-Type": "application/json", "Idempotency-Key": "k"}
    asked = '{"worker": "w", "handlers": ["h"], "limit": 1}'
    for again, status in [
        ('{"limit":1,"handlers":["h"],\n"worker":"w"}', 200),
        ('{"limit":2,"handlers":["h"],"worker":"w"}', 422),
        ("{", 422),
    ]:
        first = await service.client.post("/v1/work/claim", content=asked, headers=send)
        answer = await service.client.post("/v1/work/claim", content=again, headers=send)
        assert (first.status_code, answer.status_code) == (200, status)
        if status == 200:
            assert answer.content == first.content


async def test_a_repeat_waits_for_the_first_answer(service: Service) -> None:
    """Repeats that come while the first request waits for work get its answer when there is one."""
    case = Case("/v1/work/claim", {"worker": "w", "handlers": ["h"], "wait": 1})
    answers = await asyncio.gather(*(post(service, case, "k") for _ in range(4)))
    assert [answer.status_code for answer in answers] == [200] * 4
    assert len({answer.content for answer in answers}) == 1
    assert [answer.headers.get(REPLAYED) for answer in answers].count("true") == 3


@pytest.mark.mission("ENG-14")
async def test_a_request_under_way_holds_up_no_other_tenant(service: Service) -> None:
    """While a tenant's request is under way, another tenant may use the same key."""
    requests = Requests(service.node.engine.store, Counter())
    async with requests.turn(Request(("default", "http:k"), "")) as stored_answer:
        assert stored_answer is None
        async with service.as_("admin", tenant="other") as other:
            made = await other.post("/v1/keys", json=NEW_KEY, headers={"Idempotency-Key": "k"})
            assert made.status_code == 201


async def test_a_key_is_free_after_a_failure(service: Service) -> None:
    """Whoever waits for a request that fails is carried out instead of it."""
    requests, request = service.node.engine.requests, Request(("default", "http:k"), "asked")
    with pytest.raises(TimeoutError):
        async with requests.turn(request):
            raise TimeoutError
    async with requests.turn(request) as stored_answer:
        assert stored_answer is None
