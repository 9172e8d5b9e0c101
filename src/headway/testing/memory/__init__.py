"""A store in memory, for simulations: no threads, no I/O, and the same answers every time."""

from headway.testing.memory.store import MemoryStore
from headway.testing.memory.tables import Tables

__all__ = ["MemoryStore", "Tables"]
