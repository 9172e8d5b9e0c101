"""Task runs over HTTP, by the names of the document: create, read, and `apply-action`."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import Depends, Path, Query
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from headway import Statechart
from headway.codec import Meta, as_dict
from headway.http import (
    PER_PAGE,
    Cursor,
    Here,
    Keyed,
    Limit,
    RequestBody,
    RequestId,
    RequestKey,
    ResponseBody,
    Router,
    Who,
    cursor_place,
    cursor_text,
    json_response,
    needs,
    paged,
)
from headway.lifecycles.task_runs.chart import TaskProcess, TaskRun, WorkflowRun
from headway.lifecycles.task_runs.runners import Runners
from headway.lifecycles.task_runs.runs import (
    MOST_NODES,
    RunState,
    Task,
    TaskRuns,
    process_shown,
    run_shown,
    workflow_shown,
)
from headway.node import LONGEST_NAME, LONGEST_NEW_NAME, Receipt

router = Router(tags=["task runs"])

Id = Annotated[str, Path(description="Its id.", min_length=1, max_length=LONGEST_NAME)]
NewId = Annotated[str, Meta(min_length=1, max_length=LONGEST_NEW_NAME, pattern="^[^\\x00]+$")]
Node = Annotated[str, Meta(min_length=1, max_length=100, pattern="^[^\\x00]+$")]
ProcessStatus = Literal["Pending", "Running", "Completed", "Failed", "Stopped", "Timeout", "Incomplete"]
RunStatus = Literal["Pending", "Running", "Completed", "Failed", "Stopped", "Skipped"]
WorkflowStatus = Literal["Pending", "Running", "Completed", "Failed", "Stopped"]
OnlyWith = Query(description="Only those with this status.")
READ, SEND = [needs("read")], [needs("send")]


class NewTaskRun(RequestBody):
    """A task run to create."""

    runner: Annotated[str, Meta(description="The name that a runner is registered by.", examples=["extract"])]
    id: Annotated[NewId | None, Meta(description="Its id; without one it gets one.")] = None
    input_artifacts: Annotated[list[Any], Meta(description="What its runner gets.")] = []
    config: Annotated[dict[str, Any], Meta(description="Options for its runner.")] = {}
    dispatch: Annotated[bool, Meta(description="Whether it continues by itself once it is prepared.")] = True
    request_id: RequestKey = None


class NewNode(RequestBody):
    """A node of a workflow."""

    runner: str
    after: Annotated[list[Node], Meta(description="The nodes that must be done before.")] = []
    input_artifacts: list[Any] = []
    config: dict[str, Any] = {}


class NewWorkflowRun(RequestBody):
    """A workflow run to create: tasks by the names of their nodes."""

    nodes: Annotated[dict[Node, NewNode], Meta(min_length=1, max_length=MOST_NODES)]
    id: NewId | None = None
    start: Annotated[bool, Meta(description="Whether its first nodes begin at once.")] = True
    request_id: RequestKey = None


class RunAction(RequestBody):
    """What is to be done with a task run."""

    action: Literal["continue", "stop", "restart", "resume", "retry"]
    request_id: RequestKey = None


class ProcessAction(RequestBody):
    """What is to be done with a process."""

    action: Literal["stop", "restart", "resume", "retry"]
    request_id: RequestKey = None


class WorkflowAction(RequestBody):
    """What is to be done with a workflow run."""

    action: Literal["start", "stop", "resume", "retry"]
    request_id: RequestKey = None


class Applied(ResponseBody):
    """Where something stands after an action; after a stop, what it has led to."""

    id: str
    status: str
    seq: int


class TaskProcessShown(ResponseBody):
    """A process of a task run."""

    id: str
    task_run_id: str | None
    status: ProcessStatus
    seq: int
    name: str
    runner: str
    phase: int
    config: dict[str, Any]
    max_retries: int
    timeout_seconds: float
    restart_count: int
    error_count: int
    error: Annotated[str | None, Meta(description="The last one: its code, and what was said.")]
    progress: float
    input_artifacts: list[Any]
    output_artifacts: list[Any]
    started_at: str | None
    completed_at: str | None
    failed_at: str | None
    stopped_at: str | None
    incomplete_at: str | None
    timeout_at: str | None
    allowed_actions: list[str]


class TaskRunShown(ResponseBody):
    """A task run; its status follows from its processes."""

    id: str
    workflow_run_id: str | None
    status: RunStatus
    seq: int
    node: str
    runner: str
    phase: int
    config: dict[str, Any]
    active_task_processes_count: int
    task_processes_count: int
    task_processes_by_status: dict[str, int]
    task_process_error_count: int
    error: Annotated[
        str | None,
        Meta(description="Why it failed: code and message of its `prepare`, its hook or a failed process."),
    ]
    input_artifacts: list[Any]
    output_artifacts: list[Any]
    started_at: str | None
    completed_at: str | None
    failed_at: str | None
    stopped_at: str | None
    skipped_at: str | None
    allowed_actions: list[str]


class WorkflowRunShown(ResponseBody):
    """A workflow run; its status follows from its task runs."""

    id: str
    status: WorkflowStatus
    seq: int
    graph: Annotated[dict[str, list[str]], Meta(description="Each node with the nodes it waits for.")]
    begun: list[str]
    artifacts: Annotated[
        dict[str, list[Any]], Meta(description="What each node that is done has brought out.")
    ]
    task_runs_by_status: dict[str, int]
    error_count: int
    error: Annotated[str | None, Meta(description="Why it failed: the error of a task run that failed.")]
    started_at: str | None
    completed_at: str | None
    failed_at: str | None
    stopped_at: str | None
    allowed_actions: list[str]


class TaskRunPage(ResponseBody):
    """A page of task runs."""

    items: list[TaskRunShown]
    next: str | None


class TaskProcessPage(ResponseBody):
    """A page of processes."""

    items: list[TaskProcessShown]
    next: str | None


class WorkflowRunPage(ResponseBody):
    """A page of workflow runs."""

    items: list[WorkflowRunShown]
    next: str | None


class RunnersShown(ResponseBody):
    """The names of all runners."""

    items: list[str]
    next: None = None


def router_of(runners: Runners) -> Router:
    """The routes, for tasks of these runners."""

    def give(connection: HTTPConnection) -> None:
        connection.state.runners = runners

    outer = Router(dependencies=[Depends(give)])
    outer.include_router(router)
    return outer


def desk_of(request: Request, node: Here, caller: Who) -> TaskRuns:
    """The tasks of the caller's tenant."""
    return TaskRuns(node.tenant(caller.tenant), request.state.runners)


Desk = Annotated[TaskRuns, Depends(desk_of)]


class Applier:
    """Applies an action to the run, process or workflow run that the path names."""

    def __init__(
        self,
        id: Id,  # noqa: A002 - the name in the path
        desk: Desk,
        caller: Who,
        keyed: Keyed,
    ) -> None:
        self._id, self._desk, self._caller = id, desk, caller
        self._request_id = None if keyed is None else keyed.part_id("apply")

    async def __call__(self, chart: type[Statechart], action: str) -> Response:
        """The answer to the action; raises a problem if it is refused."""
        by, request_id = self._caller.actor, self._request_id
        return await _applied(self._desk.apply(chart, self._id, action, by=by, request_id=request_id))


Apply = Annotated[Applier, Depends(Applier)]


@router.get("/task-runners", operation_id="list_task_runners", dependencies=READ)
async def list_runners(request: Request) -> RunnersShown:
    """The runners that task runs can name."""
    return RunnersShown(items=[*request.state.runners.names])


@router.post(
    "/task-runs",
    operation_id="create_task_run",
    status_code=201,
    response_model=Applied,
    dependencies=SEND,
)
async def create_run(body: NewTaskRun, desk: Desk, caller: Who, request_id: RequestId) -> Response:
    """Create a task run; its runner prepares its processes right after."""
    given = as_dict(body)
    del given["request_id"]
    return await _applied(desk.create_run(**given, by=caller.actor, request_id=request_id), "/task-runs/")


@router.get("/task-runs", operation_id="list_task_runs", dependencies=READ)
async def list_runs(
    desk: Desk,
    *,
    workflow_run_id: Annotated[str | None, Query(description="Only those of this workflow run.")] = None,
    status: Annotated[RunStatus | None, OnlyWith] = None,
    cursor: Cursor = None,
    limit: Limit = PER_PAGE,
) -> TaskRunPage:
    """Task runs in the order of their creation."""
    items, following = await _page(
        desk, TaskRun, parent=workflow_run_id, status=status, cursor=cursor, limit=limit
    )
    return TaskRunPage(items=[TaskRunShown(**run_shown(each)) for each in items], next=following)


@router.get("/task-runs/{id}", operation_id="get_task_run", dependencies=READ)
async def get_run(id: Id, desk: Desk) -> TaskRunShown:  # noqa: A002 - the name in the path
    """A task run."""
    return TaskRunShown(**run_shown(await desk.get(TaskRun, id)))


@router.get("/task-runs/{id}/processes", operation_id="list_task_processes", dependencies=READ)
async def list_processes(
    id: Id,  # noqa: A002 - the name in the path
    desk: Desk,
    *,
    status: Annotated[ProcessStatus | None, OnlyWith] = None,
    cursor: Cursor = None,
    limit: Limit = PER_PAGE,
) -> TaskProcessPage:
    """The processes of a task run in the order of their creation."""
    await desk.get(TaskRun, id)
    items, following = await _page(desk, TaskProcess, parent=id, status=status, cursor=cursor, limit=limit)
    return TaskProcessPage(items=[TaskProcessShown(**process_shown(each)) for each in items], next=following)


@router.post(
    "/task-runs/{id}/apply-action",
    operation_id="apply_task_run_action",
    response_model=Applied,
    dependencies=SEND,
)
async def apply_to_run(body: RunAction, apply: Apply) -> Response:
    """Continue, stop, restart, resume or retry a task run. What is not possible now is 409.

    `retry` repeats what has failed of a Failed run, and only that: its failed processes, or the hook.
    """
    return await apply(TaskRun, body.action)


@router.get("/task-processes/{id}", operation_id="get_task_process", dependencies=READ)
async def get_process(id: Id, desk: Desk) -> TaskProcessShown:  # noqa: A002 - the name in the path
    """A process."""
    return TaskProcessShown(**process_shown(await desk.get(TaskProcess, id)))


@router.post(
    "/task-processes/{id}/apply-action",
    operation_id="apply_task_process_action",
    response_model=Applied,
    dependencies=SEND,
)
async def apply_to_process(body: ProcessAction, apply: Apply) -> Response:
    """Stop, restart, resume or retry one process."""
    return await apply(TaskProcess, body.action)


@router.post(
    "/workflow-runs",
    operation_id="create_workflow_run",
    status_code=201,
    response_model=Applied,
    dependencies=SEND,
)
async def create_workflow(body: NewWorkflowRun, desk: Desk, caller: Who, request_id: RequestId) -> Response:
    """Create a workflow run: a graph of tasks, each of which begins when those it waits for are done."""
    tasks = {name: Task(**as_dict(node)) for name, node in body.nodes.items()}
    made = desk.create_workflow(tasks, id=body.id, start=body.start, by=caller.actor, request_id=request_id)
    return await _applied(made, "/workflow-runs/")


@router.get("/workflow-runs", operation_id="list_workflow_runs", dependencies=READ)
async def list_workflows(
    desk: Desk,
    *,
    status: Annotated[WorkflowStatus | None, OnlyWith] = None,
    cursor: Cursor = None,
    limit: Limit = PER_PAGE,
) -> WorkflowRunPage:
    """Workflow runs in the order of their creation."""
    items, following = await _page(desk, WorkflowRun, status=status, cursor=cursor, limit=limit)
    return WorkflowRunPage(items=[WorkflowRunShown(**workflow_shown(each)) for each in items], next=following)


@router.get("/workflow-runs/{id}", operation_id="get_workflow_run", dependencies=READ)
async def get_workflow(id: Id, desk: Desk) -> WorkflowRunShown:  # noqa: A002 - the name in the path
    """A workflow run."""
    return WorkflowRunShown(**workflow_shown(await desk.get(WorkflowRun, id)))


@router.post(
    "/workflow-runs/{id}/apply-action",
    operation_id="apply_workflow_run_action",
    response_model=Applied,
    dependencies=SEND,
)
async def apply_to_workflow(body: WorkflowAction, apply: Apply) -> Response:
    """Start, stop or resume a workflow run, or retry what has failed of it."""
    return await apply(WorkflowRun, body.action)


async def _applied(doing: Awaitable[Receipt], made_in: str | None = None) -> Response:
    """The answer to an action; for something new also its location."""
    receipt = await doing
    applied = {"id": receipt.instance, "status": receipt.status, "seq": receipt.seq}
    headers = {"ETag": f'"{receipt.seq}"'}
    if made_in is None:
        return json_response(applied, 200, headers)
    return json_response(applied, 201, {**headers, "Location": made_in + quote(receipt.instance, safe="")})


async def _page(
    desk: TaskRuns, chart: type[Statechart], *, cursor: str | None, limit: int, **wanted: str | None
) -> tuple[Sequence[RunState], str | None]:
    name = chart.chart.name
    after = None if cursor is None else cursor_place(name, str, cursor)

    async def read(count: int) -> Sequence[RunState]:
        return await desk.list(chart, after=after, limit=count, **wanted)

    return await paged(read, limit, lambda each: cursor_text(name, each.snapshot.instance))
