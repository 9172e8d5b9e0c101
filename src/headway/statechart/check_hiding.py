"""When one row of a state stands in the way of another."""

from __future__ import annotations

from headway.statechart.tree import ANY, Arc, descriptor, names_matching


def hides(first: Arc, second: Arc) -> tuple[str, ...]:
    """The events of the second row that the first, standing before it, takes whenever the second could."""
    if not (_asks_no_more(first, second) and _admits_all(first, second)):
        return ()
    if not first.model.events and not second.model.events:
        return ("its turn",)
    heard = {descriptor(event) for event in first.model.events}
    return tuple(event for event in second.model.events if _is_heard(heard, event))


def _asks_no_more(first: Arc, second: Arc) -> bool:
    """Whether the first demands nothing of data and duties that the second does not demand too."""
    one, other = first.model, second.model
    return (
        set(one.when) <= set(other.when)
        and one.takes in {None, other.takes}
        and set(one.distinct_from) <= set(other.distinct_from)
        and (not one.no_agent or other.no_agent)
        and first.excludes <= second.excludes
    )


def _admits_all(first: Arc, second: Arc) -> bool:
    """Whether everybody who may fire the second may fire the first."""
    if not first.by:
        return True
    return bool(second.by) and {*second.by, *second.model.countersign} <= {
        *first.by,
        *first.model.countersign,
    }


def _is_heard(heard: set[str], event: str) -> bool:
    return ANY in heard or not heard.isdisjoint(names_matching(descriptor(event)))


def order_decides(first: Arc, second: Arc) -> frozenset[str]:
    """The roles for which two rows without guards compete though each has senders of its own."""
    shared = first.by & second.by
    heard = {descriptor(event) for event in first.model.events}
    competing = any(_is_heard(heard, event) for event in second.model.events)
    same = first.model.targets == second.model.targets and first.model.actions == second.model.actions
    plain = not (first.guards or second.guards or first.takes or second.takes)
    apart = bool(first.duties or second.duties) or bool(first.excludes or second.excludes)
    return shared if competing and plain and not same and not apart else frozenset()
