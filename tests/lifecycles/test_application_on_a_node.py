"""Applications of one user on a node: what they share, and what they must not."""

from __future__ import annotations

import asyncio
from operator import itemgetter
from typing import Any

import pytest

from headway import person
from headway.codec import decode
from headway.engine.orders import Receipt
from headway.lifecycles.applications.chart import Application, ApplicationCleanup
from headway.store.queries import LetterQuery
from headway.testing import Harness
from headway.worker import Handlers, Work
from tests.lifecycles.applying import BROWSER, GOOD, LAST_PAGE, PAGE, SENT
from tests.refusals import answer_to, refusal_of
from tests.store.contract.acts import found

TENANT = "default"
ANN = person("ann", "user")
TASK = {"jobUrl": "https://jobs/1", "userId": "ann", "tier": "pro", "mode": "autopilot"}
GIVEN = {"recentTasks": 1, "rateLimit": 10, "concurrencyLimit": 2, "planLimit": 3}
FACTS = {name: lambda *_, value=value: value for name, value in GIVEN.items()}


ENDS = {
    "completes": "autopilot",
    "fails": "autopilot",
    "is cancelled": "copilot",
    "is not reviewed": "copilot",
    "never begins": "autopilot",
}


def browsers(**others: Any) -> Handlers:
    """What a browser would find in forms of two pages, one for each task; `others` replace handlers."""
    results: dict[str, Any] = {
        "take_task": None,
        "start_browser": BROWSER,
        "load_page": PAGE,
        "fill_fields": {},
        "read_back": {},
        "click_next": None,
        "upload_resume": SENT,
        "submit": None,
        "release_browser": None,
    }
    handlers = Handlers()
    for name, result in results.items():
        handlers.add(name, others.get(name) or _answering(result))

    @handlers
    async def analyze_form(work: Work) -> Any:
        page = (await work.context())["pageIndex"]
        return {"fields": [{**GOOD, "name": f"{work.instance}, page {page}"}], "formFlow": {"pages": 2}}

    @handlers
    async def find_navigation(work: Work) -> Any:
        return LAST_PAGE if (await work.context())["pageIndex"] else {"hasNext": True}

    @handlers
    async def verify(work: Work) -> Any:
        return {"confirmationId": f"C-{work.instance}"}

    return handlers


def _answering(result: object) -> Any:
    async def answer(_: Work) -> object:
        return result

    return answer


def node(handlers: Handlers | None = None) -> Harness:
    """A node for applications."""
    return Harness(Application, ApplicationCleanup, handlers=handlers, facts=FACTS)


async def created(life: Harness, *names: str) -> None:
    """Tasks of one user."""
    for name in names:
        (await life.tenant.create(Application, name, TASK)).unwrap()


async def counted(life: Harness, counter: str) -> int:
    """Where a counter of the user stands."""
    key = (TENANT, f"{counter}:ann")
    return (await found(life.node.engine.store, counters={key})).counters.get(key, 0)


@pytest.mark.mission("APP-CHK", "ENG-3")
def test_each_task_has_checkpoints_of_its_own() -> None:
    """Two tasks of a tenant pass the same points: what is stored there is each one's own, page by page."""
    names = (
        "provisioned",
        "analyzed",
        "page_filled:0",
        "page_filled:1",
        "resume_uploaded",
        "submitted",
        "verified",
    )

    async def live() -> tuple[list[str], dict[str, Any]]:
        async with node(browsers()) as life:
            await created(life, "t1", "t2")
            for task in ("t1", "t2"):
                (await life.tenant.send(task, Application.dispatch())).unwrap()
            await life.run_until_idle()
            keys = {(TENANT, "checkpoint", f"{task}:{name}") for task in ("t1", "t2") for name in names}
            rows = (await found(life.node.engine.store, records=keys)).records
            states = [(await life.tenant.get(task)).state for task in ("t1", "t2")]
            return states, {key[2]: decode(dict, row.data) for key, row in rows.items()}

    states, stored = asyncio.run(live())
    assert states == ["completed", "completed"]
    assert len(stored) == 2 * len(names)
    for task in ("t1", "t2"):
        assert stored[f"{task}:verified"]["confirmationId"] == f"C-{task}"
        for page in range(2):
            filled = stored[f"{task}:page_filled:{page}"]
            assert filled["pageIndex"] == page
            assert [each["name"] for each in filled["fields"]] == [
                f"{task}, page {n}" for n in range(page + 1)
            ]


@pytest.mark.mission("APP-T1", "APP-TIER", "ENG-4")
def test_tasks_that_are_dispatched_at_once_keep_to_the_limit() -> None:
    """Of three tasks that a user starts at the same time two run; the third may when one has ended."""

    async def live() -> tuple[list[bool], bool, list[int]]:
        async with node() as life:
            await created(life, "t1", "t2", "t3")
            sent = [answer_to(life.tenant.send(task, Application.dispatch())) for task in ("t1", "t2", "t3")]
            answers = [isinstance(answer, Receipt) for answer in await asyncio.gather(*sent)]
            running = [await counted(life, "running")]
            (await life.tenant.send("t1", Application.cancel(by=ANN))).unwrap()
            again = isinstance(await life.tenant.send("t3", Application.dispatch()), Receipt)
            running.append(await counted(life, "running"))
            await life.advance("30m")
            return answers, again, [*running, await counted(life, "running")]

    assert asyncio.run(live()) == ([True, True, False], True, [2, 2, 0])


@pytest.mark.mission("APP-T8", "APP-TIER")
def test_a_unit_of_the_plan_is_kept_only_by_what_was_begun() -> None:
    """What was cancelled, never taken, never dispatched or overdue is given back; a finished task counts."""

    async def live() -> list[int]:
        async with node(browsers()) as life:
            await created(life, "done")
            (await life.tenant.send("done", Application.dispatch())).unwrap()
            await life.run_until_idle()
            used = [await counted(life, "usage")]
        async with node() as life:
            await created(life, "cancelled", "not taken", "beyond the plan", "too many")
            used.append(await counted(life, "usage"))
            await refusal_of(life.tenant.send("too many", Application.dispatch()))
            (await life.tenant.send("cancelled", Application.cancel(by=ANN))).unwrap()
            used.append(await counted(life, "usage"))
            (await life.tenant.send("not taken", Application.dispatch())).unwrap()
            await life.advance("5m")
            used.append(await counted(life, "usage"))
            await life.advance("25m")
            return [*used, await counted(life, "usage")]

    assert asyncio.run(live()) == [1, 4, 3, 2, 0]


@pytest.mark.mission("APP-T5", "APP-T6", "APP-T7", "APP-T8", "APP-DUR", "ENG-3", "ENG-12")
async def test_however_a_task_ends_its_browser_is_released(database: str) -> None:
    """Completed, failed, cancelled or not reviewed in time: the cleanup runs and gets the task's browser."""
    released: list[Any] = []

    async def release(work: Work) -> None:
        released.append(await work.context())

    async def load_page(work: Work) -> Any:
        return PAGE if work.instance != "fails" else {**PAGE, "matches": False}

    handlers = browsers(release_browser=release, load_page=load_page)
    facts = {**FACTS, "concurrencyLimit": lambda *_: 9, "planLimit": lambda *_: 9}
    charts = (Application, ApplicationCleanup)
    async with Harness(*charts, handlers=handlers, database=database, facts=facts) as life:
        for task, mode in ENDS.items():
            (await life.tenant.create(Application, task, {**TASK, "mode": mode})).unwrap()
        for task in [*ENDS][:4]:
            (await life.tenant.send(task, Application.dispatch())).unwrap()
        await life.run_until_idle()
        for task in ("is cancelled", "never begins"):
            (await life.tenant.cancel(task, by=ANN)).unwrap()
        await life.advance("300s")
        states = [(await life.tenant.get(task)).state for task in ENDS]
        cleanups = [(row.parent, row.status) for row in await life.tenant.list(chart="applications.cleanup")]
        dead = await life.node.engine.store.letters.page(LetterQuery(dead=True, limit=10))
    assert states == ["completed", "failed", "cancelled", "failed", "cancelled"]
    assert sorted(cleanups) == sorted((task, "released") for task in [*ENDS][:4])
    held = {"profileId": BROWSER["profileId"], "cdpUrl": BROWSER["cdpUrl"]}
    assert sorted(released, key=itemgetter("taskId")) == [
        {"taskId": task, **held} for task in sorted([*ENDS][:4])
    ]
    assert dead == []
