"""Messages as CloudEvents, read by the reference implementation."""

from datetime import UTC, datetime

import pytest
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from headway.outbox.message import Message, cloud_event

pytestmark = pytest.mark.mission("ENG-5")

AT = datetime(2026, 1, 1, 12, 30, 0, 250_000, tzinfo=UTC)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("trace", [None, TRACE])
@pytest.mark.parametrize(
    ("text", "data"), [('{"amount":30,"who":"Zoë"}', {"amount": 30, "who": "Zoë"}), (None, None)]
)
def test_the_reference_implementation_reads_what_is_sent(
    text: str | None, data: object, trace: str | None
) -> None:
    """All attributes, the extensions and the data come back as they were."""
    message = Message("msg_1", "acme & co", "claim-7", "topic", "expense.paid", AT, text, trace=trace)
    event = JSONFormat().read(CloudEvent, cloud_event(message, "https://headway.example"))
    assert isinstance(event, CloudEvent)
    assert (event.get_id(), event.get_type(), event.get_subject()) == ("msg_1", "expense.paid", "claim-7")
    assert (event.get_source(), event.get_time()) == ("https://headway.example/acme%20%26%20co", AT)
    assert (event.get_specversion(), event.get_datacontenttype()) == ("1.0", "application/json")
    assert event.get_extension("tenant") == "acme & co"
    assert event.get_extension("traceparent") == trace
    assert event.get_data() == data
