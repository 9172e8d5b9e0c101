"""A store that fails leaves its reason in the log, and not a line for each of thousands of requests."""

import logging

import pytest

from headway.api.problems import PAUSE, FailureLog, problem_of
from headway.errors import InputError, StoreFullError, StoreUnavailableError
from tests.api.serving import Service

pytestmark = pytest.mark.mission("ENG-16")


async def test_a_503_has_a_line_with_its_reason(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever route it is, the log says which call met which error."""

    async def fail(*_given: object, **_named: object) -> None:
        raise StoreUnavailableError("disk I/O error")

    monkeypatch.setattr(service.node.engine, "send", fail)
    monkeypatch.setattr(service.node.engine, "list", fail)
    for method, path, body in (
        ("POST", "/v1/instances/e1/events", {"event": "flip"}),
        ("GET", "/v1/instances", None),
    ):
        monkeypatch.setattr("headway.api.route.FAILURES", FailureLog())
        for _ in range(20):
            assert (await service.client.request(method, path, json=body)).status_code == 503
    lines = [record.getMessage() for record in caplog.records if "disk I/O error" in record.getMessage()]
    assert [line.split(" was answered ")[0] for line in lines] == [
        "POST /v1/instances/e1/events",
        "GET /v1/instances",
    ]


def test_lines_about_a_failing_store_are_few(caplog: pytest.LogCaptureFixture) -> None:
    """One in ten seconds for each kind of error, with a count of the rest; callers' errors have none."""
    now = [0.0]
    failures = FailureLog(lambda: now[0])
    caplog.set_level(logging.INFO)
    for second in (0.0, PAUSE - 0.1, PAUSE, PAUSE + 1):
        now[0] = second
        for error in (StoreUnavailableError("gone"), StoreFullError("no room"), InputError("yours")):
            failures.tell(error, problem_of(error), "GET /x")
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "GET /x was answered 503: gone; nothing was changed (and 0 others before)",
        "GET /x was answered 507: no room (and 0 others before)",
        "GET /x was answered 503: gone; nothing was changed (and 1 others before)",
        "GET /x was answered 507: no room (and 1 others before)",
    ]
