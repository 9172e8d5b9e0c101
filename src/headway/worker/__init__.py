"""The worker runtime: claims work, runs its handlers, and tells the engine how each attempt ended."""

from headway.worker.handlers import Handlers
from headway.worker.outcomes import Again, Done, Fail
from headway.worker.upkeep import Retention
from headway.worker.work import Work
from headway.worker.worker import Worker

__all__ = ["Again", "Done", "Fail", "Handlers", "Retention", "Work", "Worker"]
