"""The worker: claims work, runs its handlers, and sends the outcome of each attempt to the engine."""

from headway.worker.attempt import Again, Done, Fail, failure
from headway.worker.handlers import Handlers
from headway.worker.retention import Retention
from headway.worker.work import Work
from headway.worker.worker import Worker

__all__ = ["Again", "Done", "Fail", "Handlers", "Retention", "Work", "Worker", "failure"]
