"""Tools to test charts and lifecycles with: a clock that tests set, journeys, a node in a test.

`walks` is imported when it is first used, as it needs hypothesis: `pip install "headway[testing]"`.
"""

from typing import TYPE_CHECKING, Any

from headway.testing.clock import FakeClock
from headway.testing.harness import Harness
from headway.testing.journey import Journey
from headway.testing.paths import Leg, assert_path, covering_paths

if TYPE_CHECKING:
    from headway.testing.strategies import walks

__all__ = ["FakeClock", "Harness", "Journey", "Leg", "assert_path", "covering_paths", "walks"]


def __getattr__(name: str) -> Any:
    """Import `walks`; raises ModuleNotFoundError without hypothesis."""
    if name != "walks":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from headway.testing.strategies import walks  # noqa: PLC0415 - hypothesis may be absent

    return walks
