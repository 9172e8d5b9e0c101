"""Tables of the page of all routes: parameters, and the fields of bodies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from headway.codec import encode

Schema = dict[str, Any]
CODE = re.compile(r"`([^`]+)`")
DEEPEST = 3
NOTHING = {"type": "null"}


def inline(text: str) -> str:
    """A text with its code marked."""
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
        cells = (f"<code>{before}{escape(name)}</code>", escape(_kind(field, schemas)), required, told)
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


def _kind(schema: Schema, schemas: Schema) -> str:
    """The type of a field, in a few words."""
    if "$ref" in schema:
        return _kind(schemas[_last(schema["$ref"])], schemas)
    if _choices(schema):
        return " or ".join(dict.fromkeys(_kind(each, schemas) for each in _choices(schema)))
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if values:
        return " or ".join(encode(value).decode() for value in values)
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}), schemas)}"
    return str(schema.get("type", "any JSON"))


def _last(reference: str) -> str:
    return reference.rpartition("/")[2]
