"""How answers are written: JSON and problem documents, which nobody caches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.responses import Response

from headway.api.problems import PROBLEM_JSON, Problem
from headway.codec import encode

NO_STORE = (b"cache-control", b"no-store")
JSON_HEADERS = ((b"content-type", b"application/json"), NO_STORE)
PROBLEM_HEADERS = ((b"content-type", PROBLEM_JSON.encode()), NO_STORE)


class Reply(Response):
    """A whole answer, with its headers as they are sent."""

    def __init__(self, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.status_code, self.body, self.background = status, body, None
        self.raw_headers = [*headers, (b"content-length", b"%d" % len(body))]


def json_response(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Data as JSON."""
    return Reply(status, encode(data), [*JSON_HEADERS, *_raw(headers or {})])


def problem_response(problem: Problem, path: str) -> Reply:
    """A problem as its document."""
    return Reply(problem.status, problem.document(path), [*PROBLEM_HEADERS, *_raw(problem.headers)])


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
