"""How often the disk confirms a write: what every commit waits for, measured beside those who commit."""

import os

from bench.engine.places import Places

PAGE = b"\0" * 4_096
PAGES = 64


class Disk:
    """Overwrites pages of a file, and waits each time until the disk has them."""

    def __init__(self, places: Places) -> None:
        self._file = os.open(places.new_folder() / "pages", os.O_CREAT | os.O_WRONLY)
        places.at_end(lambda: os.close(self._file))
        os.write(self._file, PAGE * PAGES)

    def run(self, cycles: int) -> None:
        """Wait for the disk that often."""
        for number in range(cycles):
            os.pwrite(self._file, PAGE, number % PAGES * len(PAGE))
            os.fsync(self._file)

    def verify(self) -> None:
        """An error would have been raised."""
