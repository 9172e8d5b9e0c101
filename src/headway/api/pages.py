"""Pages for people: the routes, and what each problem means. They need nothing from anywhere else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from headway.api.problem_kinds import KINDS, Kind
from headway.api.problems import Problem
from headway.codec import encode

router = APIRouter(include_in_schema=False)
POLICY = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-cache",
}
STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
code, pre { font: 14px/1.4 ui-monospace, monospace }
pre { overflow: auto; padding: .75rem; border: 1px solid color-mix(in srgb, currentColor 25%, transparent) }
table { border-collapse: collapse }
td, th { text-align: left; padding: .25rem .75rem .25rem 0; vertical-align: top }
summary { cursor: pointer; padding: .25rem 0 }
.verb { display: inline-block; min-width: 4rem; font-weight: 600 }
"""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>{style}</style>
</head>
<body><h1>{title}</h1>{body}</body>
</html>
"""
CODE = re.compile(r"`([^`]+)`")


@router.get("/docs")
async def docs(request: Request) -> Response:
    """All routes on one page."""
    document = request.app.openapi()
    operations = [
        (operation.get("tags", ["more"])[0], path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    tags = dict.fromkeys(tag for tag, *_ in operations)
    sections = [
        f"<h2>{escape(tag)}</h2>"
        + "".join(_operation(path, method, each) for own, path, method, each in operations if own == tag)
        for tag in tags
    ]
    intro = _paragraphs(document["info"]["description"])
    more = '<p><a href="/openapi.json">The OpenAPI document</a> · <a href="/problems">All problems</a></p>'
    return page("Headway's API", intro + more + "".join(sections))


@router.get("/problems")
async def problems() -> Response:
    """All kinds of problems."""
    rows = [
        f'<tr><td><a href="/problems/{code}"><code>{code}</code></a></td><td>{kind.status}</td>'
        f"<td>{escape(kind.title)}</td></tr>"
        for code, kind in KINDS.items()
    ]
    return page("Problems", f"<table><tr><th>Code<th>Status<th>Title</tr>{''.join(rows)}</table>")


@router.get("/problems/{code}")
async def problem(code: str) -> Response:
    """One kind of problem."""
    kind = KINDS.get(code)
    if kind is None:
        raise Problem("not_found", "there is no problem of this code")
    return page(kind.title, _kind(code, kind))


def page(title: str, body: str) -> Response:
    """A page."""
    return HTMLResponse(PAGE.format(title=escape(title), style=STYLE, body=body), headers=POLICY)


def _kind(code: str, kind: Kind) -> str:
    facts = f"<p>Code <code>{code}</code>, status {kind.status}.</p>"
    more = '<p><a href="/problems">All problems</a></p>'
    return f"{facts}{_paragraphs(kind.meaning)}<h2>What helps</h2>{_paragraphs(kind.remedy)}{more}"


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    summary = f'<span class="verb">{method.upper()}</span><code>{escape(path)}</code>'
    told = _paragraphs(operation.get("description", operation.get("summary", "")))
    rows = "".join(map(_parameter, operation.get("parameters", [])))
    body = "".join(map(_example, _examples(operation)))
    statuses = ", ".join(operation["responses"])
    told += f"<table>{rows}</table>{body}<p>Answers: {statuses}</p>"
    return f"<details><summary>{summary}</summary>{told}</details>"


def _parameter(parameter: dict[str, Any]) -> str:
    if "$ref" in parameter:
        name = {"IdempotencyKey": "Idempotency-Key", "IfMatch": "If-Match"}[
            parameter["$ref"].rpartition("/")[2]
        ]
        return f"<tr><td><code>{name}</code></td><td>header</td><td></td></tr>"
    told = _inline(parameter.get("description", ""))
    return (
        f"<tr><td><code>{escape(parameter['name'])}</code></td><td>{parameter['in']}</td><td>{told}</td></tr>"
    )


def _examples(operation: dict[str, Any]) -> Iterable[object]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return [each["value"] for each in content.get("examples", {}).values()]


def _example(value: object) -> str:
    return f"<pre>{escape(encode(value).decode())}</pre>"


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{_inline(part)}</p>" for part in text.strip().split("\n\n"))


def _inline(text: str) -> str:
    return CODE.sub(r"<code>\1</code>", escape(text, quote=False))
