"""The client: calls a Headway service over HTTP, async and sync. Needs `pip install "headway[client]"`."""

from headway.client.answers import (
    AllowedEvent,
    AskShown,
    AskWithForm,
    Instance,
    InstanceSummary,
    Line,
    NewLink,
    Sign,
    Standing,
    WhyShown,
    WorkShown,
)
from headway.client.client import Client
from headway.client.events import LiveEvent, LiveGap, LiveMessage, LiveTransition
from headway.client.sync_client import SyncClient

__all__ = [
    "AllowedEvent",
    "AskShown",
    "AskWithForm",
    "Client",
    "Instance",
    "InstanceSummary",
    "Line",
    "LiveEvent",
    "LiveGap",
    "LiveMessage",
    "LiveTransition",
    "NewLink",
    "Sign",
    "Standing",
    "SyncClient",
    "WhyShown",
    "WorkShown",
]
