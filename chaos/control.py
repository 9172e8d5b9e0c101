"""What the conductor tells all processes without a word: a page of memory that they share."""

from datetime import datetime, timedelta
from mmap import mmap
from pathlib import Path
from struct import Struct
from typing import Literal, get_args

from headway.clock import SystemClock

OFFSET = Struct("@d")
DISK, ENDING, SIZE = OFFSET.size, OFFSET.size + 1, OFFSET.size + 2
Disk = Literal["well", "full", "unwritable", "unsynced", "unreadable"]
DISKS: tuple[Disk, ...] = get_args(Disk)


class Control:
    """By how many seconds the clock is wrong, how the disk is, and whether it is time to come to an end."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(SIZE))
        with path.open("r+b") as file:
            self._page = mmap(file.fileno(), SIZE)

    @property
    def offset(self) -> float:
        """By how many seconds the machine's clock is wrong."""
        seconds: float = OFFSET.unpack_from(self._page)[0]
        return seconds

    @offset.setter
    def offset(self, seconds: float) -> None:
        # A native double is written as a whole: nobody reads half of it.
        OFFSET.pack_into(self._page, 0, seconds)

    @property
    def disk(self) -> Disk:
        """How the disk is."""
        return DISKS[self._page[DISK]]

    @disk.setter
    def disk(self, disk: Disk) -> None:
        self._page[DISK] = DISKS.index(disk)

    @property
    def ending(self) -> bool:
        """Whether nothing new is to be begun."""
        return bool(self._page[ENDING])

    @ending.setter
    def ending(self, ending: bool) -> None:
        self._page[ENDING] = ending


class WrongClock:
    """The machine's clock, as wrong as the conductor wants it."""

    def __init__(self, control: Control) -> None:
        self._control, self._right = control, SystemClock()

    def now(self) -> datetime:
        """The time, in UTC."""
        return self._right.now() + timedelta(seconds=self._control.offset)
