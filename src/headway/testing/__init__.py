"""What a team tests its charts with: a clock that stands still, journeys, and the paths worth testing.

Random walks need hypothesis and stand apart, in `headway.testing.strategies`.
"""

from headway.testing.clock import FakeClock
from headway.testing.journey import Journey
from headway.testing.paths import Leg, assert_path, covering_paths

__all__ = ["FakeClock", "Journey", "Leg", "assert_path", "covering_paths"]
