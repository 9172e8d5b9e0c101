"""Simulate a lifecycle: the real engine, workers, timers and relays, in virtual time, from one seed.

`simulate(Expense, seeds=range(1000))` lives through a thousand worlds full of crashes, lost connections,
repeated calls and late workers, and checks after each of them that every guarantee has held.
"""

from headway.testing.simulate.runs import FailedSeed, GuaranteeError, simulate
from headway.testing.simulate.scenario import Scenario
from headway.testing.simulate.world import World

__all__ = ["FailedSeed", "GuaranteeError", "Scenario", "World", "simulate"]
