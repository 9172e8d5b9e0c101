"""How answers are written: JSON that nobody keeps, problems, and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from headway.api.problems import PROBLEM_JSON, Problem
from headway.api.wording import worded
from headway.codec import encode

NOT_KEPT = {"Cache-Control": "no-store"}


def json_response(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Data as JSON."""
    return Response(encode(data), status, {**NOT_KEPT, **(headers or {})}, "application/json")


def problem_response(problem: Problem, path: str) -> Response:
    """A problem as its document."""
    return Response(problem.document(path), problem.status, {**NOT_KEPT, **problem.headers}, PROBLEM_JSON)


def validation_problem(found: Sequence[Mapping[str, Any]], body: object = None) -> Problem:
    """What a validator found, as a problem that names each place; `body` is the type that the route takes."""
    if any(each["type"] == "json_invalid" for each in found):
        return Problem("malformed", str(found[0]["ctx"]["error"]))
    told = [worded(each, body) for each in found]
    detail = "; ".join(f"{place}: {message}" for place, message in told)
    return Problem(
        "invalid", detail, errors=[{"place": place, "message": message} for place, message in told]
    )
