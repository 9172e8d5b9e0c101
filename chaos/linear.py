"""Whether what many clients saw at the same time could have happened one after the other.

The search is that of Wing and Gong, with the memory that Lowe gave it: take an operation that began before
any other has ended, do it on the model, compare the answer, go on; never look at the same place twice.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, NamedTuple, TypeVar

S = TypeVar("S")

UNKNOWN = object()
"""The answer that nobody heard: the operation may have happened, at any time after its call, or not."""


class Operation(NamedTuple):
    """What a client asked for and what it was answered, and when."""

    name: str
    call: float
    end: float
    asked: Any
    answer: Any = UNKNOWN

    def __str__(self) -> str:
        told = "no answer" if self.answer is UNKNOWN else self.answer
        return f"{self.name}: {self.asked} → {told}"


@dataclass(frozen=True)
class Model(Generic[S]):
    """One client alone: its first state, what an operation answers and leaves, what tells states apart."""

    first: S
    apply: Callable[[S, Any], tuple[Any, S]]
    key: Callable[[S], Hashable]


@dataclass(frozen=True)
class Window(Generic[S]):
    """Where it fails: in this state, after these operations, none of the others can have come next."""

    state: S
    before: tuple[Operation, ...]
    stuck: tuple[tuple[Operation, Any], ...]

    def __str__(self) -> str:
        lines = [f"after {len(self.before)} operations, the last of them"]
        lines += [f"    {operation}" for operation in self.before[-3:]]
        lines += ["none of these can have come next:"]
        lines += [f"    {operation}, alone it would be {answer}" for operation, answer in self.stuck]
        return "\n".join(lines)


class Place(NamedTuple):
    """How far a search has come: the operations done, by their bits and in their order, and the state."""

    done: int
    order: tuple[int, ...]
    state: Any


class Search(Generic[S]):
    """One search over one set of operations."""

    def __init__(self, operations: Sequence[Operation], model: Model[S]) -> None:
        self._operations = sorted(operations, key=lambda each: each.call)
        self._model = model
        self._needed = sum(
            1 << place for place, each in enumerate(self._operations) if each.answer is not UNKNOWN
        )
        self._deepest = Place(0, (), model.first)
        self._known: dict[tuple[Hashable, int], tuple[Any, S]] = {}

    def succeeds(self) -> bool:
        """Whether there is an order in which everybody got the right answer."""
        seen: set[tuple[int, Hashable]] = set()
        waiting = [self._deepest]
        while waiting:
            place = waiting.pop()
            if place.done & self._needed == self._needed:
                return True
            if _known(place, self._needed) > _known(self._deepest, self._needed):
                self._deepest = place
            for following in self._following(place):
                mark = (following.done, self._model.key(following.state))
                if mark not in seen:
                    seen.add(mark)
                    waiting.append(following)
        return False

    def window(self) -> Window[S]:
        """Where the search that came furthest was stuck."""
        place = self._deepest
        stuck = tuple(
            (self._operations[each], self._model.apply(place.state, self._operations[each].asked)[0])
            for each in self._next(place.done)
        )
        return Window(place.state, tuple(self._operations[each] for each in place.order), stuck)

    def _next(self, done: int) -> Iterator[int]:
        """What may come next: it was called before anything that is not done has ended."""
        soonest = inf
        for place, operation in enumerate(self._operations):
            if done >> place & 1:
                continue
            if operation.call > soonest:
                return
            soonest = min(soonest, operation.end)
            yield place

    def _following(self, place: Place) -> Iterator[Place]:
        key = self._model.key(place.state)
        # What ended first is most likely to have happened first; the last one handed over is tried first.
        for each in sorted(self._next(place.done), key=lambda one: -self._operations[one].end):
            operation = self._operations[each]
            answer, state = self._applied(key, place.state, each)
            if operation.answer is UNKNOWN:
                if self._model.key(state) == key:
                    continue  # it changes nothing here: as if it had not happened
            elif operation.answer != answer:
                continue
            yield Place(place.done | 1 << each, (*place.order, each), state)

    def _applied(self, key: Hashable, state: S, each: int) -> tuple[Any, S]:
        known = self._known.get((key, each))
        if known is None:
            known = self._known[key, each] = self._model.apply(state, self._operations[each].asked)
        return known


def _known(place: Place, needed: int) -> int:
    return (place.done & needed).bit_count()


def problem(operations: Sequence[Operation], model: Model[S]) -> Window[S] | None:
    """None when the operations are linearizable; else the smallest window that is not."""
    if Search(operations, model).succeeds():
        return None
    ends = sorted(each.end for each in operations if each.answer is not UNKNOWN)
    low, high = 0, len(ends) - 1
    while low < high:  # what fails with the first answers also fails with more of them
        middle = (low + high) // 2
        if Search(_until(operations, ends[middle]), model).succeeds():
            low = middle + 1
        else:
            high = middle
    search = Search(_until(operations, ends[low]), model)
    search.succeeds()
    return search.window()


def _until(operations: Sequence[Operation], time: float) -> list[Operation]:
    """What was known at a time: later answers have not come yet."""
    begun = (each for each in operations if each.call <= time)
    return [each if each.end <= time else each._replace(end=inf, answer=UNKNOWN) for each in begun]
