"""What the application's routes are: which methods a path takes, which parameters a query may have."""

from __future__ import annotations

from fastapi import FastAPI, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.requests import HTTPConnection
from starlette.routing import compile_path

from headway.api.requests import wrong


def allowed_methods(app: FastAPI, path: str) -> list[str]:
    """The methods that a path takes."""
    methods: set[str] = set()
    for route in iter_route_contexts(app.routes):
        if route.methods and route.path and compile_path(route.path)[0].match(path):
            methods |= set(route.methods)
    return sorted(methods)


def body_of(connection: HTTPConnection) -> object:
    """The type of the body that the route of a request takes; None without one."""
    field = getattr(connection.scope.get("route"), "body_field", None)
    return None if field is None else field.field_info.annotation


def known_query(connection: HTTPConnection) -> None:
    """Raises Problem 422 for a parameter that the route does not know, or that comes twice."""
    route = connection.scope.get("route")
    if not connection.scope["query_string"] or not isinstance(route, APIRoute):
        return
    known, seen = _query(route), set()
    for name, _ in connection.query_params.multi_items():
        if name not in known:
            raise wrong(
                f"query.{name}", f"there is no such parameter; there are: {', '.join(known) or 'none'}"
            )
        if name in seen and "list[" not in known[name]:
            raise wrong(f"query.{name}", "it comes twice")
        seen.add(name)


def _query(route: APIRoute) -> dict[str, str]:
    """The parameters of a route's query, and their types as text."""
    fields = get_flat_params(route.dependant)
    return {
        each.alias: str(each.field_info.annotation)
        for each in fields
        if isinstance(each.field_info, params.Query)
    }
