"""How answers are written: JSON that nobody keeps, problems, and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from headway.api.problems import PROBLEM_JSON, Problem
from headway.codec import encode

NOT_KEPT = {"Cache-Control": "no-store"}


def json_response(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Data as JSON."""
    return Response(encode(data), status, {**NOT_KEPT, **(headers or {})}, "application/json")


def problem_response(problem: Problem, path: str) -> Response:
    """A problem as its document."""
    return Response(problem.document(path), problem.status, {**NOT_KEPT, **problem.headers}, PROBLEM_JSON)


def validation_problem(found: Sequence[Mapping[str, Any]]) -> Problem:
    """What a validator found, as a problem that names each place."""
    if any(each["type"] == "json_invalid" for each in found):
        return Problem("malformed", str(found[0]["ctx"]["error"]))
    errors = [{"place": _place(each["loc"]), "message": str(each["msg"])} for each in found]
    detail = "; ".join(f"{each['place']}: {each['message']}" for each in errors)
    return Problem("invalid", detail, errors=errors)


def _place(location: Sequence[object]) -> str:
    return ".".join(map(str, location))
