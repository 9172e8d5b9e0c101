"""The OpenAPI document: what the routes say of themselves, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import iter_route_contexts

from headway.api.call import KEY, TAG
from headway.api.examples import EXAMPLES, LINKS
from headway.api.problem_kinds import KINDS
from headway.api.problems import PROBLEM_JSON
from headway.api.route import Route
from headway.codec import json_schemas

OPEN = ("/health", "/ready", "/problems", "/docs", "/openapi.json", "/v1/links")
"""What needs no credential: paths that begin so."""
EVERYWHERE = (400, 500, 503)
WITH_LINK = (403,)
WITH_CREDENTIAL = (401, 403, 429)
WITH_KEY = (409,)
WITH_BODY = (413, 415)
VERSIONED = frozenset({"send_event", "cancel_instance"})
NAMES_A_CHART = frozenset({"create_instance", "list_instances", "change_many", "follow_events"})
FRAMEWORK = frozenset({"HTTPValidationError", "ValidationError"})
DESCRIPTION = """\
Lives of long-running work: send events to instances, see where they stand, and follow them live.

Every error is a problem document (RFC 9457) whose `code` is stable; its `type` leads to a page about it.
A POST with an `Idempotency-Key` can be repeated safely. Lists come in pages: `next` is the next cursor.
"""

Document = dict[str, Any]
Operation = dict[str, Any]


def document_of(app: FastAPI) -> Document:
    """The whole document."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        openapi_version="3.1.0",
        description=DESCRIPTION,
        routes=app.routes,
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in FRAMEWORK:
        schemas.pop(name, None)
    schemas |= describe_structs(app, document)
    schemas["Problem"] = problem_schema()
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "An API key or a token."}
    }
    components["responses"] = dict(problem_responses())
    components["parameters"] = PARAMETERS
    components["headers"] = HEADERS
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            complete(operation, method, path)
    return document


def describe_structs(app: FastAPI, document: Document) -> Document:
    """Describe the bodies and answers of all routes; gives the schemas of the structs in them, by name."""
    routes = {
        str(context.operation_id): context.original_route
        for context in iter_route_contexts(app.routes)
        if isinstance(context.original_route, Route)
    }
    kinds = {
        (name, what): kind
        for name, each in routes.items()
        for what, kind in (("body", each.body), ("answer", each.answers))
        if kind is not None
    }
    found, components = json_schemas(kinds.values(), "#/components/schemas/{name}")
    schemas = dict(zip(kinds, found, strict=True))
    for operations in document["paths"].values():
        for operation in operations.values():
            name = operation.get("operationId", "")
            if (name, "body") in schemas:
                content = {"application/json": {"schema": schemas[name, "body"]}}
                operation["requestBody"] = {"required": routes[name].needs_body, "content": content}
            if (name, "answer") in schemas:
                status = str(routes[name].status_code or 200)
                content = {"application/json": {"schema": schemas[name, "answer"]}}
                operation["responses"][status]["content"] = content
    return components


def complete(operation: Operation, method: str, path: str) -> None:
    """What holds for an operation by its path and method, its examples, and its links to others."""
    is_open, has_body = path.startswith(OPEN), "requestBody" in operation
    responses = operation["responses"]
    responses.pop("422", None)
    statuses = [*EVERYWHERE]
    if not is_open:
        operation["security"] = [{"bearer": []}]
        statuses += WITH_CREDENTIAL
    if "{" in path or operation.get("operationId") in NAMES_A_CHART:
        statuses.append(404)
    if path.startswith("/v1/links"):
        statuses += WITH_LINK
    if has_body:
        statuses += WITH_BODY
    if method == "post":
        _repeatable(operation, statuses, is_open=is_open)
    if has_body or operation.get("parameters"):
        statuses.append(422)
    _versioned(operation, statuses)
    for status in sorted(set(statuses)):
        responses.setdefault(str(status), {"$ref": f"#/components/responses/Problem{status}"})
    _illustrate(operation)


def _repeatable(operation: Operation, statuses: list[int], *, is_open: bool) -> None:
    statuses += WITH_KEY
    if not is_open:
        operation.setdefault("parameters", []).append({"$ref": "#/components/parameters/IdempotencyKey"})
        for status, response in operation["responses"].items():
            if status.startswith("2"):
                replayed = {"$ref": "#/components/headers/IdempotencyReplayed"}
                response.setdefault("headers", {})["Idempotency-Replayed"] = replayed


def _versioned(operation: Operation, statuses: list[int]) -> None:
    if operation.get("operationId") in VERSIONED:
        statuses.append(412)
        operation["parameters"].append({"$ref": "#/components/parameters/IfMatch"})


def _illustrate(operation: Operation) -> None:
    name = operation.get("operationId", "")
    asked, answered = EXAMPLES.get(name, ({}, {}))
    if asked and "requestBody" in operation:
        operation["requestBody"]["content"]["application/json"]["examples"] = asked
    for status, response in operation["responses"].items():
        if status.startswith("2") and "content" in response:
            if answered and "application/json" in response["content"]:
                response["content"]["application/json"]["examples"] = answered
            if name in LINKS:
                response["links"] = LINKS[name]


def problem_schema() -> Document:
    """The schema of all problem documents; each code has its own further members."""
    text = {"type": "string"}
    return {
        "type": "object",
        "title": "Problem",
        "description": "A problem document (RFC 9457).",
        "required": ["type", "title", "status", "detail", "instance", "code"],
        "properties": {
            "type": {
                **text,
                "description": "Where the kind of problem is explained.",
                "pattern": "^/problems/",
            },
            "title": text,
            "status": {"type": "integer"},
            "detail": {**text, "description": "What happened in this case."},
            "instance": {**text, "description": "The path of the request."},
            "code": {**text, "enum": sorted(KINDS), "description": "The kind of problem, for programs."},
            "errors": {
                "type": "array",
                "items": {"type": "object"},
                "description": "With `invalid`: each place.",
            },
            "states": {
                "type": "array",
                "items": text,
                "description": "Of a refusal: where the instance stands.",
            },
            "allowed": {
                "type": "array",
                "items": {"type": "object"},
                "description": "Of a refusal: what it would take.",
            },
            "objections": {
                "type": "array",
                "items": {"type": "object"},
                "description": "Of a refusal: who says no.",
            },
            "seq": {"type": "integer", "description": "With `version`: the version it has."},
            "scope": {**text, "description": "With `forbidden`: the scope that is missing."},
        },
    }


def problem_responses() -> Iterator[tuple[str, Document]]:
    """For each status a response, with an example of each code that has it."""
    for status in sorted({kind.status for kind in KINDS.values()}):
        codes = [code for code, kind in KINDS.items() if kind.status == status]
        content = {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": dict(map(_example, codes))}
        told = "; ".join(f"`{code}`: {KINDS[code].title}" for code in codes)
        yield f"Problem{status}", {"description": told, "content": {PROBLEM_JSON: content}}


def _example(code: str) -> tuple[str, Document]:
    kind = KINDS[code]
    known = {"type": f"/problems/{code}", "title": kind.title, "status": kind.status, "detail": kind.meaning}
    return code, {"value": {**known, "instance": "/v1/instances/e1", "code": code}}


HEADERS: Document = {
    "IdempotencyReplayed": {
        "description": "`true` when an earlier request with the same `Idempotency-Key` got this answer.",
        "required": False,
        "schema": {"type": "string", "enum": ["true"]},
    }
}
PARAMETERS: Document = {
    "IdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "A name of the caller's for this request: repeated, it gets the first answer again.",
        "schema": {"type": "string", "pattern": f"^{KEY.pattern.decode()}$"},
        "example": "6f1c1f0e-submit",
    },
    "IfMatch": {
        "name": "If-Match",
        "in": "header",
        "required": False,
        "description": "The ETag of the instance as the caller has seen it: no other version gets the event.",
        "schema": {"type": "string", "pattern": f"^(\\*|{TAG.pattern.decode()})$"},
        "example": "*",
    },
}
