"""`headway serve`: real processes, on each kind of store."""

import itertools
import re
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import httpx
import pytest

from tests.cli.conftest import Headway
from tests.cli.running import SECONDS, Running, calls

pytestmark = pytest.mark.mission("ENG-3", "ENG-10", "ENG-14", "ENG-17")

APP = ("--app", "tests.cli.shop:lifecycle")


@pytest.fixture
def migrated(database: str, headway: Headway) -> str:
    """A database with its schema."""
    assert headway("db", "up", "--database", database).code == 0
    return database


def test_one_process_does_it_all(migrated: str, folder: Path) -> None:
    """It makes the first key, answers, runs the work, and ends in good order."""
    with Running("serve", *APP, "--port", "0", "--database", migrated, folder=folder) as service:
        with calls(service.ready(), service.key) as client:
            begun = client.post("/v1/instances", json={"chart": "Order", "id": "o-1", "context": {}})
            assert begun.status_code == 201, begun.text
            assert client.post("/v1/instances/o-1/events", json={"event": "submit"}).status_code == 200
        assert service.end() == 0
        assert "Stopped." in "".join(service.errors)
    with Running("serve", *APP, "--port", "0", "--database", migrated, folder=folder) as again:
        again.ready()
        assert "hw_" not in again.printed
        assert f", on {migrated.partition('://')[0]}://" in again.printed


def test_parts_run_alone(migrated: str, folder: Path, headway: Headway) -> None:
    """A process that only works finishes what was begun by a command, and listens on no port."""
    arguments = (*APP, "--database", migrated)
    headway("create", "Order", "flaky-1", *arguments)
    headway("send", "flaky-1", "submit", *arguments)
    headway("send", "flaky-1", "approve", "--role", "manager", *arguments)
    with Running("worker", *arguments, folder=folder) as worker:
        assert worker.ready() == ""
        seen = headway("tail", "--since", "0-0", "--count", "5", "--json", "--database", migrated).out
        assert '"to":"paid"' in seen.splitlines()[-1]
        assert worker.end(signal.SIGINT) == 0


def test_a_worker_without_handlers_is_told_so(headway: Headway) -> None:
    """A worker that could do nothing does not start."""
    outcome = headway("worker", "--app", "tests.cli.shop:Order")
    assert (outcome.code, "no handler to run" in outcome.err) == (2, True)


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_without_a_lifecycle_it_says_what_to_do(headway: Headway, folder: Path, command: str) -> None:
    """Registered lifecycles are not run unasked: without their handlers and facts, work waits for ever."""
    outcome = headway(command, "--port", "0") if command == "serve" else headway(command)
    assert outcome.code == 2
    for way in ("--app module:name", "app in headway.toml", "headway init", "--lifecycle", "headway demo"):
        assert way in outcome.err
    assert "supervision, task_runs" in outcome.err
    assert [*folder.iterdir()] == []


def test_a_registered_lifecycle_runs_when_it_is_named(folder: Path) -> None:
    """By an option or by a setting."""
    (folder / "headway.toml").write_text('lifecycles = ["supervision"]\n')
    with Running("serve", "--port", "0", folder=folder) as service:
        service.ready()
        assert "with 3 charts" in service.printed
        assert service.end() == 0


@pytest.fixture
def passed() -> Iterator[socket.socket]:
    """A socket that somebody else holds open, as a service manager does."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1_024)
        yield listening


def started_with(listening: socket.socket, database: str, folder: Path) -> Running:
    """A service that was given its socket."""
    arguments = ("serve", *APP, "--database", database)
    return Running(*arguments, folder=folder, environment={"LISTEN_FDS": "1"}, listening=listening)


class Callers:
    """Some who begin lives all the time, each call on a connection of its own."""

    def __init__(self, address: str, key: str) -> None:
        self.answers: Queue[int | str] = Queue()
        self._address, self._key = address, key
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._call, args=(number,)) for number in range(4)]
        for thread in self._threads:
            thread.start()

    def _call(self, number: int) -> None:
        for count in itertools.takewhile(lambda _: not self._over.is_set(), itertools.count()):
            body = {"chart": "Order", "id": f"o-{number}-{count}", "context": {}}
            try:
                with calls(self._address, self._key) as client:
                    self.answers.put(client.post("/v1/instances", json=body).status_code)
            except httpx.HTTPError as error:
                self.answers.put(repr(error))

    def next(self, count: int) -> set[int | str]:
        """So many more answers."""
        return {self.answers.get(timeout=SECONDS) for _ in range(count)}

    def end(self) -> set[int | str]:
        """The answers to the last calls."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        return self.next(self.answers.qsize())


@pytest.mark.mission("ENG-6")
def test_a_restart_loses_no_request(tmp_path: Path, folder: Path, passed: socket.socket) -> None:
    """While callers go on, the service is restarted on a socket that stays open: every call is answered."""
    database = f"sqlite:///{tmp_path}/restart.db"
    with started_with(passed, database, folder) as first:
        first.ready()
        callers = Callers(f"http://127.0.0.1:{passed.getsockname()[1]}", first.key)
        try:
            assert callers.next(20) == {201}
            assert first.end() == 0
            with started_with(passed, database, folder) as second:
                second.ready()
                assert callers.next(40) == {201}
                assert callers.end() <= {201}
                assert second.end() == 0
        finally:
            callers.end()


def test_a_port_in_use_is_one_message(headway: Headway) -> None:
    """The address that is taken is named."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        outcome = headway("serve", *APP, "--port", str(taken.getsockname()[1]))
    assert outcome.code == 2
    assert re.search(r"cannot listen on port \d+ on 127\.0\.0\.1: address already in use", outcome.err)


@pytest.mark.mission("ENG-14", "ENG-16")
def test_metrics_are_for_those_who_may_see_them(tmp_path: Path, folder: Path) -> None:
    """All with the token, a tenant's own with its key, none without; each transition is a line in the log."""
    environment = {"HEADWAY_METRICS_TOKEN": "let-me-see", "HEADWAY_LOG_TRANSITIONS": "true"}
    arguments = ("serve", *APP, "--port", "0", "--database", f"sqlite:///{tmp_path}/metrics.db")
    with Running(*arguments, folder=folder, environment=environment) as service:
        address = service.ready()
        with calls(address, service.key) as client:
            assert client.post(
                "/v1/instances", json={"chart": "Order", "id": "o-1", "context": {}}
            ).is_success
            own = client.get("/metrics").text
        with calls(address, "let-me-see") as client:
            everything = client.get("/metrics").text
        assert httpx.get(f"{address}/metrics", timeout=SECONDS).status_code == 401
        with calls(address, "let-me-sea") as client:
            assert client.get("/metrics").status_code == 401
        assert service.end() == 0
    created = 'headway_transitions_total{after="draft",before="",chart="Order",tenant="default"} 1.0'
    assert created in own
    assert created in everything
    assert ("headway_calls_total" in own, "headway_calls_total" in everything) == (False, True)
    assert '"job_id": "o-1"' in "".join(service.errors)
    assert "let-me-see" not in "".join(service.errors)
