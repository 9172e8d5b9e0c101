"""A message on its way: its id, its form as a CloudEvent, and names that are made from it."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from headway.codec import Plain, decode, encode, verbatim
from headway.errors import InputError, PermanentError
from headway.store.rows import LetterRow, MessageRow

CONTENT_TYPE = "application/cloudevents+json"
FIELD = re.compile(r"\{([^{}]*)\}")
PATH = re.compile(r"[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*")
OWN = ("tenant", "instance", "name", "kind", "id")
"""Fields of every message; these names are never looked up in its data."""
OF_THE_INSTANCE = frozenset({"tenant", "instance"})
LONGEST_VALUE = 200


class Message(Plain):
    """A message on its way: `id` is the same at every attempt, and no other message has it.

    `text` is the payload as JSON, `data` the same as values. `effect` is the id of the effect in the step of
    its instance: instance, step and index. `trace` is the W3C `traceparent` of the call it comes from.
    """

    id: str
    tenant: str
    instance: str
    kind: str
    name: str
    at: datetime
    text: str | None = None
    attempt: int = 1
    effect: str = ""
    trace: str | None = None

    @property
    def data(self) -> Any:
        """The payload, decoded at each access: forwarding only the text costs nothing."""
        return None if self.text is None else decode(object, self.text)


def message_of(row: LetterRow | MessageRow) -> Message:
    """The message of a row."""
    return Message(
        message_id(row.tenant, row.id, row.at),
        row.tenant,
        row.instance,
        row.kind,
        row.name,
        row.at,
        row.data,
        row.attempts + 1 if isinstance(row, LetterRow) else 1,
        row.id,
        row.trace,
    )


def message_id(tenant: str, effect: str, at: datetime) -> str:
    """An id for receivers, in letters and digits.

    It includes the time: an instance that is pruned and created again counts its effects from the start.
    """
    digest = sha256(encode((tenant, effect, at))).hexdigest()
    return f"msg_{digest[:32]}"


class CloudEvent(Plain, omit_defaults=False):
    """A message as a CloudEvent 1.0 (https://cloudevents.io); `tenant` is an extension attribute."""

    specversion: str
    id: str
    source: str
    type: str
    subject: str
    time: datetime
    tenant: str
    datacontenttype: str
    data: Any


class TracedEvent(CloudEvent):
    """The same with the extension attribute of its trace."""

    traceparent: str


@lru_cache(1_000)
def _source(base: str, tenant: str) -> str:
    return f"{base}/{quote(tenant, safe='')}"


def cloud_event(message: Message, source: str) -> bytes:
    """A message as a CloudEvent in JSON: the same bytes at every attempt."""
    attributes = (
        "1.0",
        message.id,
        _source(source, message.tenant),
        message.name,
        message.instance,
        message.at,
        message.tenant,
        "application/json",
        verbatim(message.text),
    )
    if message.trace is None:
        return encode(CloudEvent(*attributes))
    return encode(TracedEvent(*attributes, message.trace))


class Template:
    """A name with fields in braces, such as `tasks:{userId}`: fields of a message, or paths into its data.

    A path that is not in the data is looked up in the data of the event in it. `is_one_per_instance`: all
    messages of an instance give the same name. With the field `{tenant}` no two tenants give the same name:
    up to it no value may contain the text between its field and the next. Raises InputError for a text that
    is not a template.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        parts = FIELD.split(text)
        self._texts, self._paths = parts[::2], parts[1::2]
        self.has_fields = bool(self._paths)
        self._looks_inside = any(path not in OWN for path in self._paths)
        self.is_one_per_instance = all(path in OF_THE_INSTANCE for path in self._paths)
        if not text or any("{" in part or "}" in part for part in self._texts):
            raise InputError(f"not a template: {text!r}")
        for path in self._paths:
            if not PATH.fullmatch(path):
                raise InputError(f"not a field of a message: {{{path}}}")
        upto_tenant = self._paths.index("tenant") + 1 if "tenant" in self._paths else 0
        self._ends = self._texts[1:-1][:upto_tenant]
        if "" in self._ends:
            raise InputError(f"tenants could be mixed up: put a character between the fields of {text!r}")

    def fill(self, message: Message) -> str:
        """The name for a message; raises PermanentError if the message has no value for a field."""
        if not self.has_fields:
            return self.text
        data = message.data if self._looks_inside else None
        values = [_value(message, data, path) for path in self._paths]
        for path, value, end in zip(self._paths, values, self._ends, strict=False):
            if (value + end).find(end) != len(value):
                raise PermanentError(
                    f"the message's {path} contains {end!r}, which follows it in {self.text!r}"
                )
        filled = (part for pair in zip(values, self._texts[1:], strict=True) for part in pair)
        return "".join((self._texts[0], *filled))


def _value(message: Message, data: Any, path: str) -> str:
    if path in OWN:
        return str(getattr(message, path))
    inner = data.get("data") if isinstance(data, dict) else None
    for where in (data, inner):
        found = _at(where, path.split("."))
        if isinstance(found, (str, int)) and not isinstance(found, bool) and found != "":
            text = str(found)
            if len(text) > LONGEST_VALUE or not text.isprintable():
                raise PermanentError(f"the message's {path} cannot be part of a name")
            return text
    raise PermanentError(f"the message has no {path}")


def _at(data: Any, path: list[str]) -> Any:
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data
