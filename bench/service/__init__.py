"""The service suite: events over HTTP beside a bare endpoint, fan-out to many readers, start and memory."""

from bench.service.suite import suite

__all__ = ["suite"]
