"""Time as a parameter: durations as people write them, and clocks that can be replaced."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Protocol

__all__ = [
    "Clock",
    "SystemClock",
    "milliseconds",
    "spell",
    "time_text",
]

UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
LONGEST = 100 * 365 * UNITS["d"]
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,6})?|\.\d{1,6})\s*(ms|s|m|h|d|w)\s*")


def milliseconds(duration: str | float | timedelta) -> int:
    """A duration ("2d", "1h 30m", 1.5 seconds, a timedelta) in milliseconds; raises ValueError."""
    if isinstance(duration, timedelta):
        total = duration / timedelta(milliseconds=1)
    elif isinstance(duration, str):
        total = _spelled(duration)
    else:
        total = _seconds(duration) * 1_000
    if not 0 <= total <= LONGEST:
        raise ValueError(f"a duration lies between 0 and 100 years, not {duration!r}")
    return round(total)


def _seconds(number: object) -> float:
    if isinstance(number, (int, float)) and not isinstance(number, bool) and math.isfinite(number):
        return number
    raise ValueError(f"not a duration: {number!r}")


def _spelled(text: str) -> float:
    total, position = 0.0, 0
    stripped = text.strip()
    while match := _PART.match(stripped, position):
        total += float(match[1]) * UNITS[match[2]]
        position = match.end()
    if position != len(stripped) or not stripped:
        raise ValueError(f"not a duration: {text!r} (write 500ms, 90s, 5m, 2h, 1d 12h)")
    return total


def spell(duration: int) -> str:
    """Milliseconds as people write them: 90000 is "1m 30s"."""
    parts, rest = [], duration
    for unit in ("d", "h", "m", "s", "ms"):
        amount, rest = divmod(rest, UNITS[unit])
        if amount:
            parts.append(f"{amount}{unit}")
    return " ".join(parts) or "0s"


def backoff(failures: int, *, base: float, cap: float, factor: float = 2.0) -> float:
    """The wait after `failures` in a row, in the unit of `base`: it grows by the factor, up to the cap.

    Without a failure there is no wait.
    """
    if failures < 1:
        return 0.0
    # The exponent is bounded, or a long row of failures would leave the range of numbers.
    return min(base * factor ** min(failures - 1, 64), cap)


def time_text(moment: datetime) -> str:
    """A time as every text has it: RFC 3339 in UTC, with microseconds, so that texts sort as times do."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Clock(Protocol):
    """The source of the current time."""

    def now(self) -> datetime:
        """The time, in UTC."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The time, in UTC."""
        return datetime.now(UTC)
