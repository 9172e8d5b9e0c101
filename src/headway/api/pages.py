"""Pages for people: the routes, and what each problem means. They need nothing from anywhere else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

from fastapi import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from headway.api.problem_kinds import KINDS, Kind
from headway.api.problems import Problem
from headway.api.route import Router
from headway.codec import encode

router = Router(include_in_schema=False)
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
.short { margin-left: .75rem; opacity: .75 }
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
SENTENCE = re.compile(r"(?<=[.:])\s")
CODE = re.compile(r"`([^`]+)`")
DEEPEST = 3
NOTHING = {"type": "null"}
Schema = dict[str, Any]


@router.get("/")
async def begin() -> Response:
    """Where a browser begins."""
    return RedirectResponse("/docs", status_code=307)


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
        + "".join(
            _operation(path, method, each, document["components"])
            for own, path, method, each in operations
            if own == tag
        )
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


def _operation(path: str, method: str, operation: dict[str, Any], components: dict[str, Any]) -> str:
    description = operation.get("description", operation.get("summary", ""))
    told = _paragraphs(description)
    told += table([parameter_row(each, components["parameters"]) for each in operation.get("parameters", [])])
    told += body_tables(operation, components["schemas"])
    told += "".join(map(_example, _examples(operation)))
    told += f"<p>Answers: {', '.join(operation['responses'])}</p>"
    summary = f'<span class="verb">{method.upper()}</span><code>{escape(path)}</code>'
    summary += f'<span class="short">{inline(_first_sentence(description))}</span>'
    return f"<details><summary>{summary}</summary>{told}</details>"


def _first_sentence(text: str) -> str:
    return SENTENCE.split(text.strip().partition("\n\n")[0], maxsplit=1)[0].rstrip(".:")


def _examples(operation: dict[str, Any]) -> Iterable[object]:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return [each["value"] for each in content.get("examples", {}).values()]


def _example(value: object) -> str:
    return f"<pre>{escape(encode(value).decode())}</pre>"


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{inline(part)}</p>" for part in text.strip().split("\n\n"))


def inline(text: str) -> str:
    """The text as HTML: escaped, with backticks as `<code>`."""
    return CODE.sub(r"<code>\1</code>", escape(text, quote=False))


def table(rows: Sequence[str]) -> str:
    """A table, if there is anything in it."""
    return f"<table>{''.join(rows)}</table>" if rows else ""


def parameter_row(parameter: Schema, shared: Schema) -> str:
    """A parameter: its name, where it stands, what it is for."""
    if "$ref" in parameter:
        parameter = shared[_last(parameter["$ref"])]
    name, told = escape(parameter["name"]), inline(parameter.get("description", ""))
    return f"<tr><td><code>{name}</code></td><td>{parameter['in']}</td><td>{told}</td></tr>"


def body_tables(operation: Schema, schemas: Schema) -> str:
    """The fields of an operation's body: name, type, whether it is required, what it is."""
    body = operation.get("requestBody")
    if body is None:
        return ""
    needed = "" if body.get("required") else " It may be left out."
    schema = body["content"]["application/json"]["schema"]
    return "".join(_body(each, schemas, needed) for each in _objects(schema, schemas))


def _body(schema: Schema, schemas: Schema, needed: str) -> str:
    head = "<tr><th>Field<th>Type<th>Required<th></tr>"
    rows = [*_rows(schema, schemas)]
    return f"<p><b>Body.</b> {inline(schema.get('description', ''))}{needed}</p>" + table(
        [head, *rows] if rows else []
    )


def _rows(schema: Schema, schemas: Schema, before: str = "", deep: int = 0) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        required = "yes" if name in schema.get("required", ()) else ""
        told = inline(field.get("description", ""))
        if "default" in field and field["default"] not in (None, "", [], {}):
            told += f" Without it <code>{escape(encode(field['default']).decode())}</code>."
        cells = (f"<code>{before}{escape(name)}</code>", escape(_type_text(field, schemas)), required, told)
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        if deep < DEEPEST:
            for inner in _objects(field, schemas):
                yield from _rows(inner, schemas, f"{before}{escape(name)}.", deep + 1)


def _objects(schema: Schema, schemas: Schema) -> list[Schema]:
    """The objects with fields that a schema allows."""
    if "$ref" in schema:
        return _objects(schemas[_last(schema["$ref"])], schemas)
    if "properties" in schema:
        return [schema]
    return [inner for each in _choices(schema) for inner in _objects(each, schemas)]


def _choices(schema: Schema) -> list[Schema]:
    choices: list[Schema] = schema.get("anyOf") or schema.get("oneOf") or []
    return [each for each in choices if each != NOTHING]


def _type_text(schema: Schema, schemas: Schema) -> str:
    """The type of a field, in a few words."""
    if "$ref" in schema:
        return _type_text(schemas[_last(schema["$ref"])], schemas)
    if _choices(schema):
        return " or ".join(dict.fromkeys(_type_text(each, schemas) for each in _choices(schema)))
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values:
        return " or ".join(encode(value).decode() for value in values)
    if schema.get("type") == "array":
        return f"list of {_type_text(schema.get('items', {}), schemas)}"
    return str(schema.get("type", "any JSON"))


def _last(reference: str) -> str:
    return reference.rpartition("/")[2]
