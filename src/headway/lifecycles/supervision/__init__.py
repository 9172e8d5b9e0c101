"""Supervised workers, and the jobs they work for."""

from headway.lifecycles.supervision.chart import Job, Supervisor, Worker
from headway.lifecycles.supervision.lifecycle import supervision
from headway.lifecycles.supervision.process import NetworkError, Part, ResourcesExhaustedError

__all__ = ["Job", "NetworkError", "Part", "ResourcesExhaustedError", "Supervisor", "Worker", "supervision"]
