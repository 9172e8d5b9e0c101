"""The trust suite: messages out beside bare producers, the live log, rehearsals, the cost of the journal."""

from bench.trust.suite import suite

__all__ = ["suite"]
