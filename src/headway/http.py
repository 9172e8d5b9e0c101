"""HTTP: the service of a node, and what a lifecycle needs to serve routes of its own.

Needs the packages of the service: `pip install "headway[service]"`.
"""

from headway.api.access import Access, Caller
from headway.api.app import application
from headway.api.bodies import NO_NUL, Check, RequestBody, RequestKey, ResponseBody, wrong
from headway.api.call import json_response
from headway.api.cursors import CursorCipher, cursor_place, cursor_text, paged, position_of, position_text
from headway.api.keyring import Keyring
from headway.api.parameters import PER_PAGE, Cipher, Cursor, Here, Keyed, Limit, RequestId, Who, needs
from headway.api.problems import Problem, problem_of
from headway.api.route import Router
from headway.api.server import serving
from headway.engine.requests import Request as KeyedRequest
from headway.telemetry.metrics import CONTENT_TYPE as METRICS_TYPE
from headway.telemetry.metrics import text_of as metrics_text

__all__ = [
    "METRICS_TYPE",
    "NO_NUL",
    "PER_PAGE",
    "Access",
    "Caller",
    "Check",
    "Cipher",
    "Cursor",
    "CursorCipher",
    "Here",
    "Keyed",
    "KeyedRequest",
    "Keyring",
    "Limit",
    "Problem",
    "RequestBody",
    "RequestId",
    "RequestKey",
    "ResponseBody",
    "Router",
    "Who",
    "application",
    "cursor_place",
    "cursor_text",
    "json_response",
    "metrics_text",
    "needs",
    "paged",
    "position_of",
    "position_text",
    "problem_of",
    "serving",
    "wrong",
]
