"""Time as a parameter: how long to wait after failures."""

from math import inf

import pytest

from headway.clock import backoff


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(-1, 0), (0, 0), (1, 5), (2, 10), (3, 20), (6, 160), (7, 300), (8, 300), (10**9, 300)],
)
def test_waits_double_up_to_a_cap(failures: int, seconds: float) -> None:
    """After the first failure the base; without a failure nothing; however many there are, the cap."""
    assert backoff(failures, base=5, cap=300) == seconds


def test_waits_grow_by_the_factor() -> None:
    """Any factor will do, also one by which waits stay as they are."""
    assert [backoff(n, base=1, cap=50, factor=3) for n in range(1, 6)] == [1, 3, 9, 27, 50]
    assert [backoff(n, base=2, cap=50, factor=1) for n in range(1, 4)] == [2, 2, 2]
    assert [backoff(n, base=0, cap=50) for n in range(1, 4)] == [0, 0, 0]


def test_waits_without_a_cap_stay_in_the_range_of_numbers() -> None:
    """A long row of failures is no overflow."""
    assert backoff(10**9, base=5, cap=inf) == 5 * 2.0**64
