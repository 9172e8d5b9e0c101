"""What a team tests its charts and lives with: a clock that stands still, journeys, a node in a test.

Random walks need hypothesis and stand apart, in `headway.testing.strategies`.
"""

from headway.testing.clock import FakeClock
from headway.testing.harness import Harness
from headway.testing.journey import Journey
from headway.testing.paths import Leg, assert_path, covering_paths

__all__ = ["FakeClock", "Harness", "Journey", "Leg", "assert_path", "covering_paths"]
