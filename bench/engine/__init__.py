"""The engine suite: durable transitions beside bare databases, and work beside job queues."""

from bench.engine.suite import suite

__all__ = ["suite"]
