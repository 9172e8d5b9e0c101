"""A real object with some of its attributes replaced, such as one noun of a store or one method of a noun."""

from typing import Any


class Overlay:
    """Has what was replaced, and everything else of the real object."""

    def __init__(self, real: object, **replaced: object) -> None:
        self._real = real
        vars(self).update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)
