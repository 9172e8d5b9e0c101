"""HTTP: the service of a node, and what a lifecycle needs to serve routes of its own.

Needs the packages of the service: `pip install "headway[service]"`.
"""

from headway.api.access import Access
from headway.api.answers import json_response
from headway.api.app import application
from headway.api.caller import Caller
from headway.api.cursors import cursor_place, cursor_text, position_of, position_text
from headway.api.depends import (
    PER_PAGE,
    WHOLE,
    Cursor,
    Here,
    Limit,
    RequestId,
    Sealed,
    Strict,
    Who,
    access_of,
    needs,
    node_of,
    paged,
)
from headway.api.front import once
from headway.api.idempotency import Repeats, lookups_of
from headway.api.keyring import Keyring
from headway.api.problems import Problem, problem_of
from headway.api.requests import KEY, REQUEST, request_key, wrong
from headway.api.seals import Seal
from headway.api.server import serving
from headway.telemetry.metrics import CONTENT_TYPE as METRICS_TYPE
from headway.telemetry.metrics import text_of as metrics_text

__all__ = [
    "KEY",
    "METRICS_TYPE",
    "PER_PAGE",
    "REQUEST",
    "WHOLE",
    "Access",
    "Caller",
    "Cursor",
    "Here",
    "Keyring",
    "Limit",
    "Problem",
    "Repeats",
    "RequestId",
    "Seal",
    "Sealed",
    "Strict",
    "Who",
    "access_of",
    "application",
    "cursor_place",
    "cursor_text",
    "json_response",
    "lookups_of",
    "metrics_text",
    "needs",
    "node_of",
    "once",
    "paged",
    "position_of",
    "position_text",
    "problem_of",
    "request_key",
    "serving",
    "wrong",
]
