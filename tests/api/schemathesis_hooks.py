"""What a document cannot say of values: a key is used once, and a cursor comes from an answer."""

import json
import os
from base64 import urlsafe_b64decode
from itertools import count
from typing import Any

import schemathesis
from schemathesis.generation import GenerationMode

NUMBERS = count()
OWN_KEY = os.environ["KEY"].split("_")[1]


@schemathesis.hook
def before_call(_context: Any, case: schemathesis.Case[Any], _kwargs: dict[str, Any]) -> None:
    """Let valid requests be valid, and do not let the tester revoke its own key."""
    if case.path_parameters.get("id") == OWN_KEY:
        case.path_parameters["id"] = "0"
    if case.meta is not None and case.meta.generation.mode == GenerationMode.NEGATIVE:
        return
    if isinstance(case.body, dict) and "wait" in case.body:
        case.body["wait"] = 0
    if "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = f"key-{next(NUMBERS)}"
    if (tag := case.headers.get("If-Match", "")).isdigit():
        case.headers["If-Match"] = f'"{tag}"'  # the tester sends some without their quotes
    if "cursor" in case.query and not _is_ours(case.query["cursor"]):
        del case.query["cursor"]


def _is_ours(cursor: object) -> bool:
    try:
        return isinstance(json.loads(urlsafe_b64decode(f"{cursor}===")), list)
    except ValueError:
        return False
