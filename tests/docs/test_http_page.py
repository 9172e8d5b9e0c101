"""The page of the HTTP API names every route there is, with its scope, and no other."""

import re
from pathlib import Path

import pytest
from fastapi import FastAPI

from headway.api.app import ROUTERS
from headway.api.openapi import document_of

pytestmark = pytest.mark.mission("ENG-2")
PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/http.md").read_text(encoding="utf-8")
ROUTE = re.compile(r"^\| (GET|POST|PUT|DELETE) \| `(/[^`]+)` \| (\w+) \|", re.MULTILINE)


def document() -> dict[str, dict[str, dict[str, object]]]:
    """The operations of all routes."""
    app = FastAPI()
    for router in ROUTERS:
        app.include_router(router)
    paths: dict[str, dict[str, dict[str, object]]] = document_of(app)["paths"]
    return paths


def test_every_route_is_on_the_page_and_needs_a_credential_if_the_page_says_so() -> None:
    """Whoever looks a route up finds it, and none that is gone."""
    rows = ROUTE.findall(PAGE)
    told = {(method, path): scope for method, path, scope in rows}
    assert len(rows) == len(told), "a route is on the page twice"
    there = {
        (method.upper(), path): "security" in operation
        for path, operations in document().items()
        for method, operation in operations.items()
    }
    assert {route: scope != "none" for route, scope in told.items()} == there
