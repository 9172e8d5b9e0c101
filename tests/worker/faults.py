"""A store whose database can be away."""

from collections.abc import Awaitable, Callable
from typing import Any

from headway.errors import StoreUnavailableError
from headway.store.port import Store
from headway.store.unit import Submissions, Unit


class Breakable(Submissions):
    """Passes calls on to a real store, but for those that a test has broken.

    `broken` are the names of methods, such as "run" and "work.claim", that fail before they do anything;
    those in `afterwards` do what they are asked to do, and nobody hears of it.
    """

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self.broken: set[str] = set()
        self.afterwards: set[str] = set()
        self.calls: list[str] = []

    async def run(self, unit: Unit) -> None:
        """Run a unit; the engine's calls come through here, too."""
        await self._breakable("run", self._store.run)(unit)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if callable(found):
            return self._breakable(name, found)
        return found if isinstance(found, int) else _Noun(self, name, found)

    def _breakable(self, name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **named: Any) -> Any:
            self.calls.append(name)
            if name in self.broken:
                raise StoreUnavailableError("the database is away")
            answer = await method(*arguments, **named)
            if name in self.afterwards:
                raise StoreUnavailableError("the database went away", maybe_committed=True)
            return answer

        return call


class _Noun:
    """A noun of a store whose methods may be broken."""

    def __init__(self, store: Breakable, name: str, noun: object) -> None:
        self._store, self._name, self._noun = store, name, noun

    def __getattr__(self, name: str) -> Any:
        return self._store._breakable(f"{self._name}.{name}", getattr(self._noun, name))
