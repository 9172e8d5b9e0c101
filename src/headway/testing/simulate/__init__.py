"""Simulate a lifecycle: the real engine, workers, timers and relays, in virtual time, from one seed.

`simulate(Expense, seeds=range(1000))` runs a thousand worlds with crashes, lost connections, repeated
calls and late workers, and checks for each of them that every guarantee holds.
"""

from headway.testing.simulate.runs import FailedSeed, GuaranteeError, simulate
from headway.testing.simulate.scenario import Scenario
from headway.testing.simulate.world import World

__all__ = ["FailedSeed", "GuaranteeError", "Scenario", "World", "simulate"]
