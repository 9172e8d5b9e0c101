"""Which answers lead to another try, after which pause, and what the error says then; without any I/O."""

from typing import Any

import pytest

from headway.client.actions import ConnectionFailure, Finished, HttpReply, HttpRequest, Pause, advance
from headway.client.retries import answered
from headway.codec import encode
from headway.errors import (
    CallConflictError,
    ClientError,
    EventRefusedError,
    ProblemError,
    RateLimitedError,
    ServiceUnavailableError,
    UnauthenticatedError,
)

pytestmark = pytest.mark.mission("ENG-24", "ENG-6")
POST = HttpRequest("POST", "/v1/instances/a/events", b"{}", key="once")
GET = HttpRequest("GET", "/v1/instances/a")
AWAY, CUT = ConnectionFailure("away", sent=False), ConnectionFailure("cut", sent=True)
OK = HttpReply(200, {}, b"{}")


def problem(status: int, code: str, after: str | None = None, **extra: Any) -> HttpReply:
    """A problem document."""
    headers = {} if after is None else {"retry-after": after}
    return HttpReply(status, headers, encode({"status": status, "code": code, "detail": "so", **extra}))


def played(
    request: HttpRequest, *replies: HttpReply | ConnectionFailure, retries: int = 5
) -> tuple[Any, list[float]]:
    """What a request ends with, and its pauses; the last reply comes again and again."""
    left, outcome = [*replies], None
    pauses: list[float] = []
    steps = answered(request, retries)
    while True:
        try:
            action = advance(steps, outcome)
        except ClientError as error:
            return error, pauses
        if isinstance(action, Finished):
            return action.value, pauses
        if isinstance(action, Pause):
            pauses.append(action.seconds)
            outcome = None
        else:
            assert action == request
            outcome = left.pop(0) if len(left) > 1 else left[0]


def test_a_request_is_sent_again_until_it_is_answered() -> None:
    """The same request with the same key, after pauses that grow."""
    assert played(POST, AWAY, CUT, problem(503, "unavailable"), OK) == (OK, [0.25, 0.5, 1.0])


def test_the_number_of_tries_is_bounded() -> None:
    """So are the pauses."""
    error, pauses = played(POST, AWAY)
    assert isinstance(error, ServiceUnavailableError)
    assert pauses == [0.25, 0.5, 1.0, 2.0, 4.0]
    assert played(POST, AWAY, retries=0)[1] == []


def test_the_pause_that_the_service_asks_for_is_kept() -> None:
    """If it is longer than the client's own."""
    limited = problem(429, "rate_limited", after="3")
    assert played(POST, limited, limited, OK) == (OK, [3.0, 3.0])


def test_a_long_pause_is_for_the_caller_to_decide() -> None:
    """The error says how long it is."""
    error, pauses = played(POST, problem(429, "rate_limited", after="600"))
    assert isinstance(error, RateLimitedError)
    assert (error.retry_after, pauses) == (600.0, [])


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (problem(409, "exists"), CallConflictError),
        (problem(409, "illegal", states=["a"], allowed=[]), EventRefusedError),
        (problem(500, "fault", states=["a"], allowed=[]), EventRefusedError),
        (problem(500, "internal"), ProblemError),
        (problem(503, "schema"), ServiceUnavailableError),
        (HttpReply(302, {"location": "/"}), ProblemError),
    ],
)
def test_what_does_not_pass_is_not_tried_again(reply: HttpReply, kind: type[ClientError]) -> None:
    """The error comes at once."""
    error, pauses = played(POST, reply)
    assert (type(error), pauses) == (kind, [])


MAYBE = problem(503, "unavailable", maybe_committed=True)
REFUSED = problem(409, "illegal", states=["a"], allowed=[])


@pytest.mark.parametrize(
    ("replies", "maybe"),
    [
        ([AWAY], False),
        ([CUT], True),
        ([CUT, AWAY], True),
        ([AWAY, CUT, AWAY], True),
        ([problem(503, "unavailable")], False),
        ([MAYBE, AWAY], True),
        ([problem(500, "internal")], True),
        ([HttpReply(502, {}, b"<html>")], True),
        ([HttpReply(404, {}, b"<html>")], False),
        ([REFUSED], False),
        ([CUT, REFUSED], False),
        ([CUT, problem(500, "fault", states=["a"], allowed=[])], False),
        ([CUT, problem(401, "unauthenticated")], True),
        ([CUT, problem(429, "rate_limited", after="600")], True),
        ([CUT, problem(503, "schema")], True),
        ([problem(409, "exists")], False),
    ],
)
def test_the_error_says_whether_the_call_may_have_been_committed(replies: list[Any], maybe: bool) -> None:  # noqa: FBT001 - a column
    """It remembers every try, and an answer of the engine to the same key settles it."""
    error, _ = played(POST, *replies)
    assert (error.maybe_committed, error.request_id) == (maybe, "once")
    assert ("repeat the call with request_id='once'" in str(error)) == maybe


@pytest.mark.parametrize("code", ["secret_told", "result_refused"])
@pytest.mark.parametrize("before", [[], [CUT]])
def test_a_problem_that_reports_a_change_says_so(code: str, before: list[Any]) -> None:
    """The call was committed; its repeat would get the same problem, so the error does not ask for one."""
    error, _ = played(POST, *before, problem(409, code))
    assert (error.maybe_committed, error.request_id) == (True, "once")
    assert str(error) == f"409 {code}: so"


def test_an_unavailable_service_is_an_error_with_all_that_it_answered() -> None:
    """Its code, its document, and the pause that it asks for, which was too long for the client."""
    error, pauses = played(POST, problem(503, "unavailable", after="600", maybe_committed=False))
    assert isinstance(error, ServiceUnavailableError)
    assert (error.status, error.code, error.retry_after, pauses) == (503, "unavailable", 600.0, [])
    assert error.document["maybe_committed"] is False
    assert str(error) == "503 unavailable: so"


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (HttpReply(503, {}, b'{"code":"full","title":"The disk is full"}'), "503 full: The disk is full"),
        (HttpReply(503, {}, b'{"code":"odd"}'), "503 odd: the service gave no reason"),
        (HttpReply(502, {}, b"<html>"), "502: the service cannot be reached through its proxy"),
        (HttpReply(418, {}, b"<html>"), "418: the service gave no reason"),
    ],
)
def test_only_an_answer_without_a_problem_is_that_of_a_proxy(reply: HttpReply, text: str) -> None:
    """A problem without a detail has its title."""
    assert str(played(GET, reply, retries=0)[0]) == text


def test_a_service_that_was_not_reached_has_answered_nothing() -> None:
    """The attributes are there all the same."""
    error, _ = played(POST, AWAY)
    assert (error.status, error.code, error.retry_after, error.document) == (None, "", None, {})


@pytest.mark.parametrize("reply", [AWAY, CUT, MAYBE, problem(500, "internal")])
def test_a_read_changes_nothing(reply: Any) -> None:
    """So there is nothing to be in doubt about."""
    error, _ = played(GET, reply)
    assert (error.maybe_committed, error.request_id) == (False, None)


def test_the_errors_of_a_credential_are_told_apart() -> None:
    """401 is one of its own."""
    assert type(played(GET, problem(401, "unauthenticated"))[0]) is UnauthenticatedError
