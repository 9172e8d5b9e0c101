"""A store whose database can be away."""

from typing import Any

from headway.errors import StoreUnavailableError
from headway.store.port import Store, Unit
from headway.store.submission import Submissions


class Breakable(Submissions):
    """Passes calls on to a real store, but for those that a test has broken.

    `broken` are the names of methods that fail before they do anything; with `afterwards` those do what they
    are asked to do, and nobody hears of it.
    """

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self.broken: set[str] = set()
        self.afterwards: set[str] = set()
        self.calls: list[str] = []

    async def run(self, unit: Unit) -> None:
        """Run a unit; the engine's calls come through here, too."""
        await self.__getattr__("run")(unit)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if not callable(method):
            return method

        async def call(*arguments: Any, **named: Any) -> Any:
            self.calls.append(name)
            if name in self.broken:
                raise StoreUnavailableError("the database is away")
            answer = await method(*arguments, **named)
            if name in self.afterwards:
                raise StoreUnavailableError("the database went away", maybe_committed=True)
            return answer

        return call
