"""What the workers do: they saw planks, one after the other, and can be interrupted after each."""

import os
import time
from pathlib import Path
from typing import Any

from headway.lifecycles.supervision import Part

DIARY = "WORKSHOP_DIARY"
SECONDS_PER_PLANK = 0.05


def perform(part: Part) -> dict[str, Any]:
    """`saw 12 planks`: who begins writes that down, with the number of the process."""
    planks = int(part.description.split()[1])
    with Path(os.environ[DIARY]).open("a") as diary:
        diary.write(f"{os.getpid()} {part.job}\n")
    for number in range(part.reached or 0, planks):
        time.sleep(SECONDS_PER_PLANK)
        part.safe_point(number + 1)
    return {"planks": planks, "process": os.getpid()}
