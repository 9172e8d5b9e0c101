"""Messages as CloudEvents 1.0 in JSON (https://cloudevents.io)."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from headway.codec import Plain, encode, verbatim
from headway.outbox.destination import Message

CONTENT_TYPE = "application/cloudevents+json"


class CloudEvent(Plain, omit_defaults=False):
    """A message as an event; `tenant` is an extension attribute."""

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
    """The same with the extension attribute for the trace that it belongs to."""

    traceparent: str


@lru_cache(1_000)
def _source(base: str, tenant: str) -> str:
    return f"{base}/{quote(tenant, safe='')}"


def cloud_event(message: Message, source: str) -> bytes:
    """The event in the structured JSON format: the same bytes at every attempt."""
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
