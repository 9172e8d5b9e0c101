"""Units that tests run: plain ones, and ones that make trouble."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.codec import replace
from headway.store.port import Store
from headway.store.rows import InstanceRow
from headway.store.unit import Changes, Found, Reads
from tests.store.contract.place import AT, INSTANCE

KEY = ("acme", "i1")


class Act:
    """A unit that reads once and decides by a function; it counts how often it was begun."""

    def __init__(self, decide: Callable[[Found], Changes], reads: Callable[[], Reads] = Reads) -> None:
        self._decide, self._reads = decide, reads
        self._changes = Changes()
        self.begun = 0
        self.found: Found | None = None

    def begin(self) -> Reads:
        """Count, and say what to read."""
        self.begun += 1
        return self._reads()

    def take(self, found: Found) -> Reads | None:
        """Decide."""
        self.found = found
        self._changes = self._decide(found)
        return None

    def changes(self) -> Changes:
        """What was decided."""
        return self._changes


def writing(**changes: Any) -> Act:
    """A unit that reads nothing and writes this."""
    return Act(lambda _: Changes(**changes))


async def found(store: Store, **reads: Any) -> Found:
    """What a unit finds that only reads."""
    act = Act(lambda _: Changes(), lambda: Reads(**reads))
    await store.run(act)
    return act.found or Found(AT)


def counted(amount: int, key: tuple[str, str] = KEY) -> Act:
    """A unit that adds to the number an instance's snapshot holds."""

    def decide(seen: Found) -> Changes:
        row = seen.instances[key]
        return Changes(updated=[replace(row, seq=row.seq + 1, snapshot=str(int(row.snapshot) + amount))])

    return Act(decide, lambda: Reads(instances={key}))


class Blind:
    """Creates without looking; looks once it had to start over, and is content with what it finds."""

    def __init__(self, reads: Reads, changes: Changes) -> None:
        self._reads, self._changes = reads, changes
        self._begun = 0
        self.seen: Found | None = None

    def begin(self) -> Reads:
        """Look only when it did not work without."""
        self._begun += 1
        return Reads() if self._begun == 1 else self._reads

    def take(self, seen: Found) -> Reads | None:
        """Keep what was found."""
        self.seen = seen
        return None

    def changes(self) -> Changes:
        """Write at the first time only."""
        return self._changes if self._begun == 1 else Changes()


class Transfer:
    """Moves 1 from an instance to another, which it reads and thereby locks one after the other."""

    def __init__(self, source: str, target: str) -> None:
        self._keys = [("acme", source), ("acme", target)]

    def begin(self) -> Reads:
        """The source first."""
        self._rows: list[InstanceRow] = []
        self.found: list[Found] = []
        return Reads(instances={self._keys[0]})

    def take(self, seen: Found) -> Reads | None:
        """Then the target."""
        self.found.append(seen)
        self._rows.append(seen.instances[self._keys[len(self._rows)]])
        return Reads(instances={self._keys[1]}) if len(self._rows) == 1 else None

    def changes(self) -> Changes:
        """One less here, one more there."""
        source, target = self._rows
        return Changes(
            updated=[
                replace(source, snapshot=str(int(source.snapshot) - 1)),
                replace(target, snapshot=str(int(target.snapshot) + 1)),
            ]
        )


class Faulty:
    """Would write an instance, but breaks in one of its methods."""

    def __init__(self, where: str, error: BaseException) -> None:
        self._where, self._error = where, error

    def begin(self) -> Reads:
        """Break, or read nothing."""
        self._break_at("begin")
        return Reads()

    def take(self, _found: Found) -> Reads | None:
        """Break, or be content."""
        self._break_at("take")
        return None

    def changes(self) -> Changes:
        """Break, or write."""
        self._break_at("changes")
        return Changes(created=[INSTANCE])

    def _break_at(self, where: str) -> None:
        if where == self._where:
            raise self._error
