"""Answers as they are kept for a request with a key."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

from headway.api.answers import NOT_KEPT
from headway.api.problems import PROBLEM_JSON, Problem
from headway.codec import Value, decode, encode

JSON = ("content-type", "application/json")


class Kept(Value):
    """An answer as it is stored."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def kept_text(answer: Kept) -> str:
    """An answer as text."""
    return encode(answer).decode()


def kept_model(model: BaseModel) -> str:
    """The answer 200 with a model as its body."""
    headers = [JSON, *((name.lower(), value) for name, value in NOT_KEPT.items())]
    return kept_text(Kept(200, headers, model.model_dump_json().encode()))


def response_of(text: str) -> Response:
    """The answer that a text holds."""
    kept = decode(Kept, text)
    return Response(kept.body, kept.status, dict(kept.headers))


def spent(path: str, **extra: Any) -> str:
    """What is kept in place of an answer that holds a secret; `extra` are members of the problem."""
    problem = Problem("secret_told", **extra)
    return kept_text(Kept(problem.status, [("content-type", PROBLEM_JSON)], problem.document(path)))
