"""Examples and links of the OpenAPI document, by operation."""

from __future__ import annotations

from typing import Any

Examples = dict[str, Any]

STANDING = {
    "id": "expense_1",
    "chart": "Expense",
    "version": 1,
    "seq": 1,
    "status": "draft",
    "states": ["draft"],
    "ended": False,
}
MOVED = {**STANDING, "seq": 2, "status": "review", "states": ["review"]}
APPROVED = {**MOVED, "seq": 3, "status": "approved", "states": ["approved"], "ended": True}
NEW_KEY = {
    "name": "billing",
    "actor": {"id": "billing", "kind": "service", "roles": ["clerk"]},
    "scopes": ["read", "send"],
    "lasts": "90d",
}
MADE_KEY = {
    "id": "5f0c2a9d41b7e863",
    "name": "billing",
    "actor": NEW_KEY["actor"],
    "scopes": ["read", "send"],
    "rate": None,
    "made_at": "2026-11-16T09:00:00Z",
    "made_by": "ann",
    "expires_at": "2027-02-14T09:00:00Z",
    "old_secret_until": None,
    "revoked_at": None,
    "used_at": None,
    "key": "hw_5f0c2a9d41b7e863_<the secret>",
}
LETTER = {
    "id": "expense_1:2:0",
    "destination": "billing",
    "instance": "expense_1",
    "kind": "webhook",
    "name": "expense.approved",
    "at": "2026-11-16T09:00:00Z",
    "attempts": 8,
    "due": "2026-11-17T13:00:00Z",
    "error": "HTTP 503",
    "dead": True,
}
NEW_LINK = {"person": "eve", "roles": ["manager"], "lasts": "2d"}
MADE_LINK = {
    "ask": "expense_1:2:0",
    "person": "eve",
    "roles": ["manager"],
    "expires_at": "2026-11-18T09:00:00Z",
    "token": "<what the link says>.<its signature>",
}
REDRIVEN = {"dry_run": True, "count": 1, "more": False, "sample": [LETTER]}
REFUSED = {"instance": "expense_3", "outcome": "refused", "code": "guard", "detail": "say what it is for"}
BULK = {
    "action": "send",
    "dry_run": True,
    "seen": 3,
    "done": 2,
    "skipped": 0,
    "refused": {"guard": 1},
    "failed": {},
    "sample": [
        {"instance": "expense_1", "outcome": "done", "code": None, "detail": None},
        {"instance": "expense_2", "outcome": "done", "code": None, "detail": None},
        REFUSED,
    ],
    "next": None,
}
DRAFTS = {"chart": "Expense", "status": "draft"}
CREATE = {"chart": "Expense", "context": {"amount": 30, "purpose": "train"}}


def _one(name: str, value: object) -> Examples:
    return {name: {"value": value}}


EXAMPLES: dict[str, tuple[Examples, Examples]] = {
    "create_instance": (_one("expense", CREATE), _one("expense", STANDING)),
    "send_event": (_one("submit", {"event": "submit"}), _one("submitted", MOVED)),
    "cancel_instance": (_one("reason", {"reason": "a mistake"}), {}),
    "claim_ask": (_one("for half an hour", {"lasts": "30m"}), _one("claimed", MOVED)),
    "release_ask": ({}, _one("released", MOVED)),
    "delegate_ask": (_one("to a person", {"to": "eve"}), _one("delegated", MOVED)),
    "answer_ask": (
        {
            "approve": {"value": {"answer": "approve", "data": {"note": "fine"}}},
            "reject": {"value": {"answer": "reject", "data": {"note": "too much"}, "reason": "the budget"}},
        },
        _one("approved", APPROVED),
    ),
    "make_link": (_one("for a person", NEW_LINK), _one("made", MADE_LINK)),
    "make_key": (_one("for a program", NEW_KEY), _one("made", MADE_KEY)),
    "redrive_letters": (_one("destination", {"destination": "billing"}), _one("found", REDRIVEN)),
    "discard_letters": (_one("destination", {"destination": "billing"}), _one("found", REDRIVEN)),
    "change_many": (
        {
            "send": {"value": {"action": "send", "filter": DRAFTS, "event": "submit"}},
            "cancel": {"value": {"action": "cancel", "filter": DRAFTS, "reason": "a mistake"}},
            "retry": {"value": {"action": "retry", "filter": {"chart": "Expense"}}},
        },
        _one("sent", BULK),
    ),
}
"""What goes in, and what comes out."""


def _of_instance(where: str) -> Examples:
    names = ("get_instance", "send_event", "get_allowed_events", "get_history", "get_why", "cancel_instance")
    return {name: {"operationId": name, "parameters": {"instance": where}} for name in names}


def _of_chart(where: str) -> Examples:
    names = ("get_chart", "draw_chart_as_mermaid", "draw_chart_as_svg", "count_instances")
    return {name: {"operationId": name, "parameters": {"name": where}} for name in names}


def _of_ask(where: str) -> Examples:
    names = ("get_ask", "claim_ask", "release_ask", "delegate_ask", "answer_ask", "make_link")
    return {name: {"operationId": name, "parameters": {"id": where}} for name in names}


def _of_link(where: str) -> Examples:
    names = ("open_link", "answer_link")
    return {name: {"operationId": name, "parameters": {"token": where}} for name in names}


def _of_key(where: str) -> Examples:
    names = ("get_key", "rotate_key", "revoke_key", "list_key_notes")
    return {name: {"operationId": name, "parameters": {"id": where}} for name in names}


def _of_work(where: str) -> Examples:
    names = ("get_work", "retry_work")
    return {name: {"operationId": name, "parameters": {"work": where}} for name in names}


def _next(name: str, **more: str) -> Examples:
    parameters = {"cursor": "$response.body#/next", **more}
    return {"next": {"operationId": name, "parameters": parameters, "description": "The next page."}}


LINKS: dict[str, Examples] = {
    "create_instance": _of_instance("$response.body#/id"),
    "send_event": _of_instance("$response.body#/id"),
    "get_instance": _of_instance("$response.body#/id"),
    "list_instances": {**_next("list_instances"), **_of_instance("$response.body#/items/0/id")},
    "get_history": _next("get_history", instance="$request.path.instance"),
    "list_asks": {**_next("list_asks"), **_of_ask("$response.body#/items/0/id")},
    "make_link": _of_link("$response.body#/token"),
    "make_key": _of_key("$response.body#/id"),
    "list_keys": {**_next("list_keys"), **_of_key("$response.body#/items/0/id")},
    "list_work": {
        **_next("list_work"),
        **_of_work("$response.body#/items/0/id"),
        **_of_instance("$response.body#/items/0/instance"),
    },
    "list_timers": {**_next("list_timers"), **_of_instance("$response.body#/items/0/instance")},
    "list_letters": {**_next("list_letters"), **_of_instance("$response.body#/items/0/instance")},
    "list_charts": _of_chart("$response.body#/items/0/name"),
}
