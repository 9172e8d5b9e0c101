"""Runners: what a team writes to say what a task is, in one class with three methods."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headway.errors import InputError, shown
from headway.lifecycles.task_runs.artifacts import Inheritance
from headway.lifecycles.task_runs.rules import RETRYABLE
from headway.worker import Work

NAME = re.compile(r"[A-Za-z_][\w.-]{0,99}", re.ASCII)
LONGEST_SECONDS = 86_400
MOST_RETRIES = 1_000


class TransientError(Exception):
    """What may go well the next time: the process is incomplete and tried again, while it has retries."""

    def __init__(self, message: str = "", code: str = "network_error") -> None:
        """Raises ValueError for a code that is not a retryable one."""
        if code not in RETRYABLE:
            raise ValueError(f"{code} is not retryable; there are {', '.join(RETRYABLE)}")
        self.code = code
        super().__init__(message)


@dataclass(frozen=True)
class Process:
    """A process to create; what it leaves out is as its runner says."""

    name: str = ""
    input_artifacts: Iterable[Any] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    timeout_seconds: float | None = None
    max_retries: int | None = None

    def __post_init__(self) -> None:
        """Raises InputError for limits that cannot be kept."""
        _require_limits(self.timeout_seconds, self.max_retries)


class RunTask:
    """A task run, as `prepare` and `after_all_completed` see it."""

    def __init__(self, work: Work, data: Mapping[str, Any]) -> None:
        self._work = work
        self.id, self.tenant = work.instance, work.tenant
        self.node: str = data["node"]
        self.phase: int = data["phase"]
        """How often processes were named so far: 0 in `prepare`, 1 when those it named are done."""
        self.config: dict[str, Any] = data["config"]
        self.input_artifacts: list[Any] = data["input_artifacts"]
        self.added: list[Process] = []

    def add(self, *processes: Process) -> None:
        """Let processes be created when the method ends."""
        for process in processes:
            if not isinstance(process, Process):
                raise InputError(f"a run has processes, as Process('page 1'), not {shown(process)}")
        self.added += processes

    async def processes(self, phase: int | None = None) -> AsyncIterator[Finished]:
        """The processes that are completed, of one phase or of all, in the order of their creation."""
        async for child in self._work.children(status="Completed"):
            data = child.context
            if phase in (None, data["phase"]):
                yield Finished(child.instance, data["name"], data["phase"], data["output_artifacts"])


@dataclass(frozen=True)
class Finished:
    """A process that is completed, and what it has brought out."""

    id: str
    name: str
    phase: int
    artifacts: list[Any]


class ProcessTask:
    """A process, as `run` sees it."""

    def __init__(self, work: Work, data: Mapping[str, Any], restarts: int) -> None:
        self.work = work
        """For progress, checkpoints, and the id by which something is done once."""
        self.id, self.tenant = work.instance, work.tenant
        self.name: str = data["name"]
        self.phase: int = data["phase"]
        self.restarts = restarts
        self.config: dict[str, Any] = data["config"]
        self.input_artifacts: list[Any] = data["input_artifacts"]


class Runner:
    """Does a kind of task. Methods may be async; any other one runs in a thread.

    An instance is made for each call: what is to be kept between calls is an artifact.
    """

    timeout_seconds: float = 300
    hook_timeout_seconds: float = 3_600
    """How long `prepare` and `after_all_completed` may take; `timeout_seconds` is for one process."""
    max_retries: int = 3
    retryable: tuple[type[Exception], ...] = ()
    """Errors that are transient, besides TransientError, ConnectionError and TimeoutError."""

    def prepare(self, run: RunTask) -> Any:
        """Name the first processes by `run.add`: here one, with all that the run got. None: it is skipped."""
        run.add(Process(run.node, run.input_artifacts, run.config))

    def run(self, process: ProcessTask) -> Any:
        """Do a process; returns its artifacts, or None. An error that is not transient fails it for good."""
        raise NotImplementedError(f"{type(self).__name__} has no method run")

    def after_all_completed(self, run: RunTask) -> Any:
        """All processes are completed: name those of the next phase, or return the run's artifacts.

        It is called again when the added processes are done, and more than once after a crash.
        """


R = TypeVar("R", bound=type[Runner])


class Runners:
    """Runners by the names that task runs know them by: `@runners("extract")` above a class."""

    def __init__(self) -> None:
        self._known: dict[str, type[Runner]] = {}

    def __call__(self, name: str) -> Callable[[R], R]:
        """Register the class that follows; raises as `add` does."""

        def register(runner: R) -> R:
            self.add(name, runner)
            return runner

        return register

    def add(self, name: Any, runner: Any) -> None:
        """Register a class; raises InputError for a name that is taken or none, and for what is no runner."""
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise InputError(f"a runner has a word as its name, not {shown(name)}")
        if not (isinstance(runner, type) and issubclass(runner, Runner)):
            raise InputError(f"a runner is a subclass of Runner, not {shown(runner)}")
        if name in self._known:
            raise InputError(f"two runners are called {name}")
        _require_limits(runner.timeout_seconds, runner.max_retries)
        _require_limits(runner.hook_timeout_seconds, None)
        self._known[name] = runner

    def include(self, others: Runners) -> None:
        """Register all of another registry; raises as `add` does."""
        for name in others.names:
            self.add(name, others[name])

    @property
    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self._known))

    def __contains__(self, name: str) -> bool:
        """Whether there is a runner of this name."""
        return name in self._known

    def __getitem__(self, name: str) -> type[Runner]:
        """The runner of a name; raises as `require` does."""
        self.require(name)
        return self._known[name]

    def require(self, name: str) -> None:
        """Raises InputError, which names all that there are, unless there is a runner of this name."""
        if name not in self._known:
            raise InputError(f"there is no runner {name!r}; there are: {', '.join(self.names) or 'none'}")


def process_data(process: Process, runner: Runner, inheritance: Inheritance) -> dict[str, Any]:
    """The initial data of a process, without default values, so that thousands fit into one event."""
    own, pieces = inheritance.split(process.input_artifacts)
    given = {
        "name": process.name,
        "input_artifacts": own,
        "inherits": pieces,
        "config": dict(process.config),
        "timeout_seconds": _first(process.timeout_seconds, runner.timeout_seconds),
        "max_retries": _first(process.max_retries, runner.max_retries),
    }
    return {key: value for key, value in given.items() if value != USUAL[key]}


USUAL = {
    "name": "",
    "input_artifacts": [],
    "inherits": [],
    "config": {},
    "timeout_seconds": Runner.timeout_seconds,
    "max_retries": Runner.max_retries,
}


def _first(own: Any, usual: Any) -> Any:
    return usual if own is None else own


def _require_limits(seconds: Any, retries: Any) -> None:
    if seconds is not None and not (_is_number(seconds, (int, float)) and 0 < seconds <= LONGEST_SECONDS):
        raise InputError(
            f"a process or hook may take more than 0 and at most {LONGEST_SECONDS:,} s, not {seconds!r}"
        )
    if retries is not None and not (_is_number(retries, (int,)) and 0 <= retries <= MOST_RETRIES):
        raise InputError(f"a process has 0 to {MOST_RETRIES:,} retries, not {retries!r}")


def _is_number(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
