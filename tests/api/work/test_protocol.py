"""Remote workers: the same leases and the same fencing over HTTP as for a worker in the process."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from headway import Actor
from headway.api.workers import remote_of
from headway.codec import replace
from headway.engine.engine import Engine
from headway.errors import StoreUnavailableError
from headway.store.port import Store
from headway.store.queries import Claim, WorkQuery
from headway.store.rows import WorkRow
from headway.store.sqlite.store import SqliteStore
from headway.store.unit import Changes, Found, Reads
from headway.worker import waiting_claims
from headway.worker.handlers import Handlers
from headway.worker.remote import Remote
from headway.worker.waiting_claims import WaitingClaims
from headway.worker.worker import Worker as EmbeddedWorker
from tests.api.work.place import Payment, Place, Worker, placed
from tests.overlay import Overlay

pytestmark = pytest.mark.mission("ENG-6", "ENG-14")

CLAIM = Claim("x", ("default",), 1, (("Payment", 1),), ("pay",), ("acme",))
MORE: dict[str, dict[str, Any]] = {"checkpoint": {"checkpoint": 1}, "fail": {"code": "X"}}


async def only(worker: Worker, **asked: Any) -> dict[str, Any]:
    """The one thing there is to do."""
    [work] = await worker.claim(**asked)
    return work


async def row(place: Place) -> WorkRow:
    """The one item of work there is."""
    [found] = await place.node.engine.store.work.page(WorkQuery("acme"))
    return found


async def test_work_is_claimed_done_and_told(place: Place) -> None:
    """A worker gets what it needs to know, and the instance goes on with its result."""
    await place.pay("a/b:1", 7)
    async with place.worker() as worker:
        work = await only(worker)
        assert await worker.claim() == []
        done = await worker.say(work, "complete", result={"receipt": "r1"})
    known = {name: work[name] for name in ("attempt", "instance", "chart", "state", "handler", "context")}
    assert known == {
        "attempt": 1, "instance": "a/b:1", "chart": "Payment", "state": "paying", "handler": "pay",
        "context": {"amount": 7},
    }  # fmt: skip
    assert (work["checkpoint"], work["heartbeat_ms"], work["timeout_ms"]) == (None, 10_000, 3_600_000)
    assert (done.status_code, done.json()["status"]) == (200, "paid")
    snapshot = await place.node.engine.get("acme", "a/b:1")
    assert snapshot.context["result"] == {"receipt": "r1"}


async def test_a_claim_waits_and_wakes_at_once(place: Place) -> None:
    """Work that comes while a worker waits is handed out without a look at the clock."""
    async with place.worker() as worker:
        remote_of(place.app).waiting.wake_all = lambda: None  # type: ignore[method-assign]  # nobody looks
        claiming = asyncio.create_task(worker.claim(wait=30))
        await place.waiting(1)
        await place.pay("a")
        async with asyncio.timeout(25):
            [work] = await claiming
    assert work["instance"] == "a"


async def test_a_claim_wakes_by_the_word_of_another_node(postgres_address: str) -> None:
    """What another node commits is announced, and the announcement wakes one that waits."""
    async with placed(postgres_address) as here, placed(postgres_address) as there, here.worker() as worker:
        room = remote_of(here.app).waiting
        claiming = asyncio.create_task(worker.claim(wait=30))
        await here.waiting(1)
        assert room._polling is not None
        room._polling.cancel()
        await there.pay("a")
        async with asyncio.timeout(25):
            [work] = await claiming
    assert work["instance"] == "a"


async def test_as_many_wake_as_there_is_work_for(place: Place) -> None:
    """Each piece of work goes to one of those who wait."""
    async with place.worker("one") as one, place.worker("two") as two, place.worker("three") as three:
        claims = [asyncio.create_task(each.claim(wait=30)) for each in (one, two, three)]
        await place.waiting(3)
        await asyncio.gather(*(place.pay(name) for name in "abc"))
        found = [work["instance"] for items in await asyncio.gather(*claims) for work in items]
    assert sorted(found) == ["a", "b", "c"]


async def test_a_claim_whose_worker_is_gone_takes_nothing(place: Place) -> None:
    """A connection that ends while it waits claims no work."""
    async with place.worker() as worker:
        claiming = asyncio.create_task(worker.claim(wait=30))
        await place.waiting(1)
        claiming.cancel()
        await place.waiting(0)
        await place.pay("a")
        assert (await row(place)).worker is None


class Late:
    """A store that keeps the answer to a claim back until `go`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.work: Any = Overlay(store.work, claim=self.claim)
        self.claimed, self.go = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def claim(self, claim: Claim) -> Sequence[WorkRow]:
        """What was claimed, late."""
        rows = await self._store.work.claim(claim)
        self.claimed.set()
        await self.go.wait()
        return rows


async def test_what_is_claimed_for_somebody_who_has_just_gone_is_handed_back(place: Place) -> None:
    """The same attempt is there for the next one, without waiting for the lease to run out."""
    await place.pay("a")
    remote, late = Remote(place.node.engine), Late(place.node.engine.store)
    remote._store = late
    call = asyncio.create_task(remote.claim(CLAIM))
    await late.claimed.wait()
    assert (await row(place)).worker == "x"
    call.cancel()
    await asyncio.wait({call})
    late.go.set()
    while remote._tasks:
        await asyncio.wait(remote._tasks)
    assert ((await row(place)).worker, (await row(place)).attempt) == (None, 1)


async def test_a_claim_that_fails_for_somebody_who_has_just_gone_is_told_in_the_log(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """There is nothing to hand back, and no error that nobody looks at."""

    class Failing(Late):
        async def claim(self, claim: Claim) -> Sequence[WorkRow]:
            """Nothing, late."""
            await super().claim(claim)
            raise StoreUnavailableError("it went away")

    remote, late = Remote(place.node.engine), Failing(place.node.engine.store)
    remote._store = late
    call = asyncio.create_task(remote.claim(CLAIM))
    await late.claimed.wait()
    call.cancel()
    await asyncio.wait({call})
    late.go.set()
    tasks = {*remote._tasks}
    await asyncio.wait(tasks)
    assert [task.exception() for task in tasks] == [None]
    [said] = caplog.messages
    assert said.startswith("a claim of x, who has gone, has failed: it went away")


async def test_who_comes_just_as_the_last_one_leaves_is_called(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is always somebody who looks while one waits."""
    monkeypatch.setattr(waiting_claims, "POLL_INTERVAL", 0.001)
    room = WaitingClaims(place.node.engine)
    with room.enter(CLAIM):
        pass
    with room.enter(CLAIM) as waiting:
        await waiting.wait(10)
        assert waiting.woken.is_set()
    assert room._polling is None


async def test_a_room_that_could_not_hear_tries_again(place: Place) -> None:
    """Trouble with the store at the first claim does not make all later ones deaf."""
    store = place.node.engine.store

    class Deaf:
        tries = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def listen(self, heard: Callable[[str], None]) -> None:
            self.tries += 1
            if self.tries == 1:
                raise StoreUnavailableError("it went away")
            await store.listen(heard)

    deaf = Deaf()
    engine = Engine(deaf, (Payment,))
    room = WaitingClaims(engine)
    with pytest.raises(StoreUnavailableError):
        await room.listen()
    assert engine._watchers == []
    await room.listen()
    await room.listen()
    assert (deaf.tries, len(engine._watchers)) == (2, 1)


async def test_a_service_that_stops_lets_those_who_wait_go(place: Place) -> None:
    """They get nothing, at once, and ask elsewhere."""
    async with place.worker() as worker:
        claiming = asyncio.create_task(worker.claim(wait=30))
        await place.waiting(1)
        place.app.state.stopping.set()
        async with asyncio.timeout(25):
            assert await claiming == []


async def test_only_the_own_tenant_is_served(place: Place) -> None:
    """Another tenant's work is neither handed out nor ended, and looks like none."""
    await place.pay("a", tenant="other")
    async with place.worker() as worker, place.worker(tenant="other") as other:
        assert await worker.claim() == []
        work = await only(other)
        theirs = await worker.say(work, "complete")
        nobodys = await worker.say({"id": "x:1:0", "attempt": 1}, "complete")
        assert (theirs.status_code, theirs.json()["code"]) == (409, "lease_lost")
        assert theirs.json() | {"detail": "", "instance": ""} == nobodys.json() | {
            "detail": "",
            "instance": "",
        }
        assert (await worker.say(work, "heartbeat")).json() == {"standing": "left"}


async def test_queues_and_handlers_are_what_the_worker_asked_for(place: Place) -> None:
    """Others' work is left alone."""
    await place.pay("a")
    await place.node.engine.send("acme", "a", Payment.doubtful())
    async with place.worker() as worker:
        assert await worker.claim(queues=["slow"]) == []
        answer = await worker.post("claim", handlers=["check"], queues=["default", "slow"])
    assert [work["handler"] for work in answer.json()["items"]] == ["check"]


async def test_a_sign_of_life_keeps_the_lease_and_tells(place: Place) -> None:
    """Progress, counters and a checkpoint arrive; what is counted twice counts once with a key."""
    await place.pay("a")
    async with place.worker() as worker:
        work = await only(worker)
        before = (await row(place)).leased_until
        told = {"progress": 0.4, "message": "soon", "counters": {"pages": 3}, "checkpoint": {"page": 7}}
        for _ in range(2):
            answer = await worker.say(work, "heartbeat", headers={"Idempotency-Key": "b1"}, **told)
            assert answer.json() == {"standing": "held"}
        after = await row(place)
        snapshot = await place.node.engine.get("acme", "a")
        assert (snapshot.progress, snapshot.counters) == (40.0, {"pages": 3})
        assert after.leased_until is not None
        assert before is not None
        assert after.leased_until > before
        assert after.checkpoint == '{"page":7}'
        assert (await worker.say(work, "release")).status_code == 200
        assert (await only(worker))["checkpoint"] == {"page": 7}


async def test_who_lost_its_lease_is_told_and_changes_nothing(place: Place) -> None:
    """A worker that disappears is rescued from; what it says later is refused, whatever it is."""
    await place.pay("a")
    async with place.worker("one") as one, place.worker("two") as two:
        lost = await only(one)
        await _expire(place)
        while (await row(place)).attempt == 1:
            await place.node.rescue.turn()
        held = await only(two, wait=30)
        assert held["attempt"] == 2
        assert (await one.say(lost, "heartbeat")).json() == {"standing": "lost"}
        for what, more in OUTCOMES.items():
            answer = await one.say(lost, what, **more)
            assert (answer.status_code, answer.json()["code"]) == (409, "lease_lost"), what
            stolen = await one.say(held, what, **more)
            assert (stolen.status_code, stolen.json()["standing"]) == (409, "lost"), what
        assert (await two.say(held, "complete")).json()["status"] == "paid"


OUTCOMES: dict[str, dict[str, Any]] = {
    "complete": {"result": 1},
    "fail": {"code": "BROKEN"},
    "checkpoint": {"checkpoint": 1},
    "release": {},
}


async def test_work_that_is_no_longer_wanted_is_stopped(place: Place) -> None:
    """The next sign of life says so, and an outcome comes too late."""
    await place.pay("a")
    async with place.worker() as worker:
        work = await only(worker)
        await place.node.engine.cancel("acme", "a")
        assert (await worker.say(work, "heartbeat")).json() == {"standing": "left"}
        late = await worker.say(work, "complete")
        assert (late.status_code, late.json()["standing"]) == (409, "left")


async def test_what_takes_too_long_has_timed_out(place: Place) -> None:
    """A worker that gives signs of life for ever does not hold work for ever."""
    await place.pay("a")
    async with place.worker() as worker:
        work = await only(worker)
        await _change(place, started_at=(await row(place)).due - timedelta(hours=2))
        assert (await worker.say(work, "heartbeat")).json() == {"standing": "timeout"}
    snapshot = await place.node.engine.get("acme", "a")
    assert (snapshot.state, snapshot.context["result"]["code"]) == ("failed", "SLOW")


async def test_a_failure_reaches_the_chart(place: Place) -> None:
    """With its code, its message and what else the worker knows."""
    await place.pay("a")
    async with place.worker() as worker:
        work = await only(worker)
        failed = await worker.say(work, "fail", code="DECLINED", message="no money", details={"bank": "b"})
        assert failed.json()["status"] == "failed"
        again = await worker.say(work, "fail", code="DECLINED", message="no money", details={"bank": "b"})
        assert again.content == failed.content
    result = (await place.node.engine.get("acme", "a")).context["result"]
    assert result == {"code": "DECLINED", "message": "no money", "bank": "b"}


async def test_an_outcome_that_comes_again_gets_the_first_answer(place: Place) -> None:
    """Whose answer was lost on the way repeats the call; another outcome is refused."""
    await place.pay("a")
    async with place.worker() as worker:
        work = await only(worker)
        first = await worker.say(work, "complete", result=1)
        again = await worker.say(work, "complete", result=1)
        other = await worker.say(work, "complete", result=2)
    assert (first.status_code, first.content) == (200, again.content)
    assert (other.status_code, other.json()["code"]) == (409, "lease_lost")


async def test_work_may_end_with_an_event(place: Place) -> None:
    """As a handler in the process may return one."""
    await place.pay("a")
    async with place.worker() as worker:
        work = await only(worker)
        assert (await worker.say(work, "complete", event="doubtful")).json()["status"] == "checking"


async def test_a_result_that_is_refused_is_a_failure(place: Place) -> None:
    """The chart hears of it, so that nobody waits for work that cannot end."""
    await place.pay("a")
    async with place.worker() as worker:
        work = await only(worker)
        refused = await worker.say(work, "complete", event="nonsense")
    assert (refused.status_code, refused.json()["code"]) == (409, "result_refused")
    snapshot = await place.node.engine.get("acme", "a")
    assert (snapshot.state, snapshot.context["result"]["code"]) == ("failed", "refused")


async def test_work_that_is_handed_back_waits_as_long_as_is_said(place: Place) -> None:
    """It is the same attempt, for anyone, not before that."""
    await place.pay("a")
    async with place.worker("one") as one, place.worker("two") as two:
        work = await only(one)
        assert (await one.say(work, "release", after="1h")).json() == {"standing": "left"}
        assert await two.claim() == []
        await _change(place, due=(await row(place)).due - timedelta(hours=1))
        assert (await only(two))["attempt"] == 1


async def test_nobody_speaks_for_the_worker_of_another_actor(place: Place) -> None:
    """Two that have chosen the same name are two, when their keys are of different actors."""
    await place.pay("a")
    async with place.worker("same") as one, place.worker("same", actor=Actor("else", "service")) as other:
        work = await only(one)
        assert (await other.say(work, "complete")).json()["code"] == "lease_lost"
        assert (await one.say(work, "complete")).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("claim", {}),
        ("claim", {"handlers": []}),
        ("claim", {"handlers": ["pay"], "limit": 0}),
        ("claim", {"handlers": ["pay"], "limit": "1"}),
        ("claim", {"handlers": ["pay"], "wait": 31}),
        ("claim", {"handlers": ["pay"], "hurry": True}),
        ("x%3A1%3A0/heartbeat", {}),
        ("x%3A1%3A0/heartbeat", {"attempt": True}),
        ("x%3A1%3A0/heartbeat", {"attempt": 1, "progress": 2}),
        ("x%3A1%3A0/heartbeat", {"attempt": 1, "counters": {"pages": 1}}),
        ("x%3A1%3A0/fail", {"attempt": 1, "code": "not a word"}),
        ("x%3A1%3A0/release", {"attempt": 1, "after": "soon"}),
    ],
    ids=str,
)
async def test_bad_calls_get_a_problem(place: Place, path: str, body: dict[str, Any]) -> None:
    """With the place that is wrong."""
    async with place.worker() as worker:
        answer = await worker.post(path, **body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


async def test_work_needs_the_scope_for_it(place: Place) -> None:
    """A key that may read may not work."""
    key = (await place.access.keyring.make("acme", Actor("x"), ("read", "send"))).text
    async with place.worker() as worker:
        answer = await worker.post("claim", {"Authorization": f"Bearer {key}"}, handlers=["pay"])
    assert (answer.status_code, answer.json()["scope"]) == (403, "work")


async def test_a_worker_gets_work_of_the_versions_that_it_knows(place: Place) -> None:
    """Who names charts gets nothing of other charts or other versions; who names none gets all."""
    await place.pay("a")
    await place.pay("b")
    others: list[dict[str, list[int]]] = [{}, {"Payment": []}, {"Payment": [2]}, {"Other": [1]}]
    async with place.worker("one") as one:
        for charts in others:
            assert await one.claim(charts=charts) == []
        [known] = await one.claim(charts={"Payment": [1, 2], "Other": [1]}, limit=1)
        [other] = await one.claim()
    assert {known["instance"], other["instance"]} == {"a", "b"}


async def test_the_service_knows_who_works_for_it(place: Place) -> None:
    """Who has spoken, what it asks for, and what it has done, each tenant its own."""
    await place.pay("a")
    async with place.worker("one") as one, place.worker("two", tenant="other") as two:
        await one.say(await only(one), "complete")
        await two.claim()
    [known] = remote_of(place.app).workers.of("acme")
    assert (known.name, known.queues, known.handlers) == ("payments/one", ("default",), ("pay",))
    assert (known.waiting, known.claimed, known.ended) == (False, 1, 1)


class Passing:
    """A unit that writes an item of work as it is given."""

    def __init__(self, row: WorkRow) -> None:
        self._row = row

    def begin(self) -> Reads:
        """Nothing need be read."""
        return Reads()

    def take(self, _found: Found) -> None:
        """All is decided."""

    def changes(self) -> Changes:
        """The item."""
        return Changes(work=[self._row])


async def _expire(place: Place) -> None:
    await _change(place, leased_until=(await row(place)).due - timedelta(hours=1))


async def _change(place: Place, **columns: Any) -> None:
    """Let time pass for the one item of work there is, without waiting for it."""
    await place.node.engine.store.run(Passing(replace(await row(place), **columns)))


@pytest.mark.parametrize(
    ("theirs", "others"),
    [
        (("work/b", "c"), ("work", "b/c")),
        (("work%2Fb", "c"), ("work/b", "c")),
        (("work", "b%2Fc"), ("work", "b/c")),
    ],
)
async def test_a_name_with_a_slash_is_no_other_workers(
    place: Place, theirs: tuple[str, str], others: tuple[str, str]
) -> None:
    """However actors and workers are called, nobody speaks for the worker of another actor."""
    await place.pay("a")
    async with (
        place.worker(theirs[1], actor=Actor(theirs[0], "service")) as holder,
        place.worker(others[1], actor=Actor(others[0], "service")) as other,
    ):
        work = await only(holder)
        for call in ("complete", "checkpoint", "release", "fail"):
            refused = await other.say(work, call, **MORE.get(call, {}))
            assert (refused.status_code, refused.json()["code"]) == (409, "lease_lost"), call
        assert (await other.say(work, "heartbeat")).json() == {"standing": "lost"}
        assert (await holder.say(work, "complete")).status_code == 200


def test_an_embedded_worker_has_no_name_of_a_remote_one() -> None:
    """A worker in the process may have any name: it is never that of an actor's worker."""
    engine = Engine(SqliteStore(":memory:"), [Payment])
    handlers = Handlers()
    handlers.add("pay", lambda _work: None)
    assert "/" not in EmbeddedWorker(engine, handlers, name="work/b").id


@pytest.mark.parametrize("work", ["none", "no:work", f"{'x' * 490}:1:0", "y" * 500])
async def test_work_with_an_id_that_no_work_has_is_left(place: Place, work: str) -> None:
    """Whoever ends it hears that its instance does not want it, however long the id is."""
    async with place.worker("one") as one:
        for what in ("complete", "fail"):
            answer = await one.say({"id": work, "attempt": 1}, what, **OUTCOMES[what])
            assert (answer.status_code, answer.json().get("standing")) == (409, "left"), answer.text
