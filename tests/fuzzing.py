"""Random search: the same examples in every `make test`, others in each round of `make fuzz`."""

import os

ROUND = os.environ.get("HEADWAY_FUZZ")
"""The seed of a round of `make fuzz`; None in `make test`."""
SEED = int(ROUND or 0)
SPAN = 1_000_000


def seeds(number: int) -> range:
    """So many seeds: those from 0 on in `make test`, others in each round of `make fuzz`."""
    return range(SEED * SPAN, SEED * SPAN + number)
