"""What is wrong with a model before it can run, wherever it came from: all of it, each with its line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from headway.errors import DefinitionProblem
from headway.statechart import model
from headway.statechart.authoring.declarations import SourceLine
from headway.statechart.tree import HISTORY, comes_from_engine
from headway.statechart.validation import contents, limits
from headway.statechart.validation.contents import LEAVES, Found, ModelIndex, comes_from_people, kind_name

MOST_PROBLEMS = 100
MOST_COMPARED, LONGEST_COMPARED = 500, 40
DEEPEST_STATES = 64
LARGEST_QUORUM = 100
_STATE_NAME = re.compile(r"[^\s./,;|*@]+")
_SCXML_NAME = re.compile(r"[^\s/,;|*@]+")
_EVENT_NAME = re.compile(r"[^\s,;|]+")

NOWHERE = SourceLine()


def problems_of(
    whole: model.Model,
    lines: Mapping[str, SourceLine],
    first: SourceLine = NOWHERE,
    *,
    context: object = None,
) -> list[DefinitionProblem]:
    """Everything that keeps a model from running; empty when it can.

    With the schema of what is kept as `context`, texts that name a field it lacks are found too.
    """
    children: dict[str, list[model.State]] = {}
    for state in whole.states:
        children.setdefault(state.parent or model.ROOT, []).append(state)
    index = ModelIndex(whole, {state.id: state for state in whole.states}, children)
    found: list[tuple[str, str]] = []
    for check in CHECKS:
        found += islice(check(index), MOST_PROBLEMS - len(found))
        if found and check in DECISIVE:
            break
    fields = contents.field_names(context)
    if fields is not None:
        found += islice(contents.templates(index, fields), MOST_PROBLEMS)
        found += islice(contents.people_fields(index, fields), MOST_PROBLEMS)
    return [DefinitionProblem(message, *lines.get(place, first)) for place, message in found]


def _has_states(index: ModelIndex) -> Found:
    if not index.whole.states:
        yield "", f"{index.whole.name} has no states"


def _tree(index: ModelIndex) -> Found:
    """Parents come before their children, names are unique: the order the tables are built in."""
    depth = {model.ROOT: 0}
    seen: set[str] = set()
    for state in index.whole.states:
        if state.id in seen:
            yield state.id, f"two states are called {state.id}"
        seen.add(state.id)
        if not (_STATE_NAME if index.native else _SCXML_NAME).fullmatch(state.id):
            yield state.id, f"{state.id!r} is not a valid name for a state (no spaces, none of . / , ; | * @)"
        parent = state.parent or model.ROOT
        if parent not in depth:
            yield state.id, f"{state.id} is listed before its parent {parent}, or {parent} does not exist"
            continue
        depth.setdefault(state.id, depth[parent] + 1)
        if depth[state.id] > DEEPEST_STATES:
            yield state.id, f"{state.id} is nested more than {DEEPEST_STATES} levels deep"


def _document_order(index: ModelIndex) -> Found:
    """A state's descendants follow it directly: only then is a subtree a range of positions."""
    stack: list[str] = []
    for state in index.whole.states:
        while stack and stack[-1] != state.parent:
            stack.pop()
        if state.parent is not None and not stack:
            yield state.id, f"{state.id} is not listed with the other children of {state.parent}"
            return
        stack.append(state.id)


def _kinds(index: ModelIndex) -> Found:
    for state in index.whole.states:
        children = index.children.get(state.id, [])
        real = [child for child in children if child.kind not in HISTORY]
        if children and state.kind in LEAVES:
            yield state.id, f"{state.id} is {kind_name(state.kind)} and cannot have children"
        if not real and state.kind in {"compound", "parallel"}:
            yield state.id, f"{state.id} is {kind_name(state.kind)} and has no children"
        if state.kind == "parallel" and any(child.kind == "final" for child in children):
            yield state.id, f"{state.id} is parallel: its children are regions, not final states"
        if state.kind in HISTORY and state.parent is None:
            yield state.id, f"{state.id} is a history state and needs a state around it"


def _initial(index: ModelIndex) -> Found:
    whole = index.whole
    if whole.computed is None and index.native and len(whole.initial) != 1:
        said = "several outermost states have" if whole.initial else "no outermost state has"
        yield (whole.initial or ("",))[-1], f"{said} initial=True: exactly one must have it"
    for name in whole.initial:
        yield from _known(index, "", name, "the first state")
    if not index.native:
        yield from _orthogonal(index, "", "the start", whole.initial)
        for state in whole.states:
            yield from _orthogonal(index, state.id, f"the start of {state.id}", state.initial)
    for state in whole.states:
        for name in state.initial:
            yield from _known(index, state.id, name, f"the first state of {state.id}")
            if not _lies_in(index, name, state.parent if state.kind in HISTORY else state.id):
                yield state.id, f"{name} cannot be the initial state of {state.id}: it is not inside it"
            first = index.states.get(name)
            if state.kind in HISTORY and first is not None and first.kind in HISTORY:
                yield (
                    state.id,
                    f"the default of {state.id} is {name}, which is a history state too: name another state",
                )
        firsts = [name for name in state.initial if name in index.states]
        if index.native and state.kind == "compound" and len(firsts) > 1:
            yield state.id, f"{' and '.join(firsts)} both say initial=True in {state.id}"


def _lies_in(index: ModelIndex, name: str, around: str | None) -> bool:
    state = index.states.get(name)
    while state is not None and state.parent is not None:
        if state.parent == around:
            return True
        state = index.states.get(state.parent)
    return state is None or around is None


def _known(index: ModelIndex, place: str, name: str, role: str) -> Found:
    if name not in index.states:
        yield place, f"{role} is {name!r}, which does not exist{suggestion(name, index.states)}"


def _transitions(index: ModelIndex) -> Found:
    for row in index.whole.transitions:
        place = f"{row.name}@{row.source}"
        yield from _ends(index, place, row)
        if row.excludes and row.source != model.ROOT:
            yield place, f"{row.name} has but=, which only any_live takes"
        if len(row.targets) > 1:
            yield from _orthogonal(index, place, row.name, row.targets)
        for event in row.events:
            if not _EVENT_NAME.fullmatch(event):
                yield place, f"{event!r} is not a valid name for an event"
        if index.native:
            yield from _own_events(index, place, row)


def _ends(index: ModelIndex, place: str, row: model.Transition) -> Found:
    if row.source != model.ROOT:
        yield from _known(index, place, row.source, f"the source of {row.name}")
    for target in (*row.targets, *row.lands, *row.excludes):
        yield from _known(index, place, target, f"a state of {row.name}")
    source = index.states.get(row.source)
    if source is not None and source.kind in HISTORY:
        yield place, f"{row.name} leaves the history state {source.id}, which is never active"
    if source is not None and source.kind == "final":
        yield place, f"{row.name} leaves {source.id}, which is final"


def _orthogonal(index: ModelIndex, place: str, role: str, targets: tuple[str, ...]) -> Found:
    """Several targets are active together only in different regions of a parallel state."""
    paths = [_path(index, target) for target in targets if target in index.states]
    for position, one in enumerate(paths):
        for other in paths[position + 1 :]:
            shared = [name for name in one if name in other]
            around = index.states[shared[0]].kind if shared else "compound"
            if around != "parallel":
                yield place, f"{role} goes to {one[0]} and {other[0]}, which cannot be active together"


def _path(index: ModelIndex, name: str) -> list[str]:
    path, state = [], index.states.get(name)
    while state is not None:
        path.append(state.id)
        state = index.states.get(state.parent or "")
    return path


def _own_events(index: ModelIndex, place: str, row: model.Transition) -> Found:
    for event in row.events:
        first, _, rest = event.partition(".")
        if event in {"timer", "work.done", "work.failed", "work.progress"}:
            yield place, f"{row.name}: the event {event} is reserved for the engine"
        elif first == "after" and row.after is not None:
            continue
        elif comes_from_engine(event) and event != "child.changed" and not _promised(index, event):
            yield place, f"{row.name} waits for {event}, which never comes: {_why_never(first, rest)}"
    if row.lands and index.whole.computed is None:
        yield place, f"{row.name} uses .computes(), which is for charts with computed="


def _promised(index: ModelIndex, event: str) -> bool:
    first, _, rest = event.partition(".")
    kind, _, name = rest.partition(".")
    state = index.states.get(name.partition(".")[0] if first in {"done", "error"} else rest)
    if first == "error" and not rest:
        return True
    if state is None:
        return first in {"done", "error"} and not name
    if first == "done":
        return (state.run is not None) if kind == "work" else state.kind in {"compound", "parallel"}
    if first == "error":
        return state.run is not None
    if first == "deadline":
        return state.ask is not None and state.ask.deadline is not None
    return first == "answer" and state.ask is not None


def _why_never(first: str, rest: str) -> str:
    name = rest.rpartition(".")[2]
    return {
        "done": f"{rest.partition('.')[2]} has no run= and no children",
        "error": "its state has no run=",
        "deadline": f"{name} has no ask with a deadline",
        "answer": f"{name} has no ask",
    }.get(first, f"names that begin with {first}. are reserved for the engine")


def _duties(index: ModelIndex) -> Found:
    names = {row.name for row in index.whole.transitions}
    known = names | {event for row in index.whole.transitions for event in row.events}
    for row in index.whole.transitions:
        place = f"{row.name}@{row.source}"
        for earlier in row.distinct_from:
            if earlier not in known:
                hint = suggestion(earlier, known)
                yield place, f"{row.name} is distinct_from {earlier!r}, which does not exist{hint}"
        if not 1 <= row.quorum <= LARGEST_QUORUM:
            yield place, f"{row.name} has a quorum of {row.quorum}: it must be between 1 and {LARGEST_QUORUM}"
        if index.native and not any(map(comes_from_people, row.events)):
            yield from _unheeded(place, row)
    if index.whole.cancel is not None and index.whole.cancel not in names:
        yield "", f"cancel={index.whole.cancel!r} does not exist{suggestion(index.whole.cancel, names)}"


def _unheeded(place: str, row: model.Transition) -> Found:
    """Duties of people on a row that no person fires."""
    given = {
        "by": row.by,
        "takes": row.takes,
        "quorum": row.quorum > 1,
        "distinct_from": row.distinct_from,
        "countersign": row.countersign,
        "no_agent": row.no_agent,
    }
    for word in (word for word, value in given.items() if value):
        yield place, f"{row.name} has {word}=, which has no effect: only the engine fires it"


def _computed(index: ModelIndex) -> Found:
    whole = index.whole
    for state in whole.states:
        if state.where is not None and (whole.computed is None or state.parent is not None):
            yield state.id, f"{state.id} has where=, which is for outermost states of charts with computed="
        if whole.computed and state.parent is None and state.where is None:
            yield state.id, f"{state.id} needs where=: the status of {whole.name} is computed"
    for row in whole.transitions if whole.computed else ():
        for target in row.targets:
            if target in index.states and index.states[target].parent is None:
                place = f"{row.name}@{row.source}"
                yield (
                    place,
                    f"{row.name} assigns the status {target}; it is computed: write .computes({target})",
                )


def _upgrades(index: ModelIndex) -> Found:
    """Where living instances of older versions go must be somewhere they can stand."""
    version = index.whole.version
    for upgrade in index.whole.upgrades:
        said = f"the upgrade from version {upgrade.version}"
        if not 1 <= upgrade.version < version:
            yield "", f"{said} leads to version {version}, which is not a later one"
        for message in (*_destinations(index, said, upgrade), *_upgraded_words(index, said, upgrade)):
            yield "", message


def _destinations(index: ModelIndex, said: str, upgrade: model.Upgrade) -> Iterator[str]:
    for state, to in upgrade.states.items():
        for name in () if isinstance(to, model.Named) else to:
            yield from (each for _, each in _known(index, "", name, f"{said}: where {state} goes"))
            if name in index.states and index.states[name].kind == "final" and name != state:
                yield f"{said} ends instances in {name}: an instance ends by an event, not by an upgrade"
    for name in upgrade.restarts:
        yield from (each for _, each in _known(index, "", name, f"{said}: a state that restarts"))
        if name in index.states and index.states[name].run is None:
            yield f"{said} restarts {name}, which has no run="


def _upgraded_words(index: ModelIndex, said: str, upgrade: model.Upgrade) -> Iterator[str]:
    whole = index.whole
    rows = {name for row in whole.transitions for name in (row.name, *row.events)}
    fields = contents.field_names(whole.schemas.get(whole.context or "")) or ()
    for name in upgrade.renames.values():
        if name not in rows:
            yield f"{said} renames to {name!r}, which does not exist{suggestion(name, rows)}"
    for name in upgrade.drops:
        if name in fields:
            yield f"{said} drops {name}, which the context still has"


def suggestion(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """` (did you mean x?)` when a known name is at least that close."""
    # Comparing is quadratic in the length of names, and a document from outside may have thousands.
    short = [each for each in islice(known, MOST_COMPARED) if len(each) <= LONGEST_COMPARED]
    close = difflib.get_close_matches(name[:LONGEST_COMPARED], short, n=1, cutoff=cutoff)
    return f" (did you mean {close[0]}?)" if close else ""


DECISIVE: tuple[Callable[[ModelIndex], Found], ...] = (_has_states, _tree)
"""Once these fail, the rest would only repeat them."""

CHECKS: tuple[Callable[[ModelIndex], Found], ...] = (
    _has_states,
    _tree,
    _document_order,
    contents.names,
    _kinds,
    _initial,
    _transitions,
    _duties,
    limits.numbers,
    limits.durations,
    limits.timers,
    _computed,
    _upgrades,
    contents.context,
    contents.people,
    contents.expressions,
    contents.actions,
)
