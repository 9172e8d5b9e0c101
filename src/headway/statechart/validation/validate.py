"""What is wrong with a model before it can run, wherever it came from: all of it, each with its line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from headway.errors import DefinitionProblem
from headway.statechart import model
from headway.statechart.authoring.terms import Line
from headway.statechart.tree import HISTORY, comes_from_engine
from headway.statechart.validation import contents, limits
from headway.statechart.validation.subject import LEAVES, Found, Subject, comes_from_people, kind_name

MOST_PROBLEMS = 100
MOST_COMPARED, LONGEST_COMPARED = 500, 40
DEEPEST_STATES = 64
LARGEST_QUORUM = 100
_STATE_NAME = re.compile(r"[^\s./,;|*@]+")
_SCXML_NAME = re.compile(r"[^\s/,;|*@]+")
_EVENT_NAME = re.compile(r"[^\s,;|]+")

NOWHERE = Line()


def problems_of(
    whole: model.Model, lines: Mapping[str, Line], first: Line = NOWHERE, *, context: object = None
) -> list[DefinitionProblem]:
    """Everything that keeps a model from running; empty when it can.

    With the schema of what is kept as `context`, texts that name a field it lacks are found too.
    """
    children: dict[str, list[model.State]] = {}
    for state in whole.states:
        children.setdefault(state.parent or model.ROOT, []).append(state)
    subject = Subject(whole, {state.id: state for state in whole.states}, children)
    found: list[tuple[str, str]] = []
    for check in CHECKS:
        found += islice(check(subject), MOST_PROBLEMS - len(found))
        if found and check in DECISIVE:
            break
    fields = contents.field_names(context)
    if fields is not None:
        found += islice(contents.templates(subject, fields), MOST_PROBLEMS)
    return [DefinitionProblem(message, *lines.get(place, first)) for place, message in found]


def _has_states(subject: Subject) -> Found:
    if not subject.whole.states:
        yield "", f"{subject.whole.name} has no states"


def _tree(subject: Subject) -> Found:
    """Parents come before their children, names are unique: the order the tables are built in."""
    depth = {model.ROOT: 0}
    seen: set[str] = set()
    for state in subject.whole.states:
        if state.id in seen:
            yield state.id, f"two states are called {state.id}"
        seen.add(state.id)
        if not (_STATE_NAME if subject.native else _SCXML_NAME).fullmatch(state.id):
            yield state.id, f"{state.id!r} is no name for a state (no spaces, none of . / , ; | * @)"
        parent = state.parent or model.ROOT
        if parent not in depth:
            yield state.id, f"{state.id} stands before its parent {parent}, or that does not exist"
            continue
        depth.setdefault(state.id, depth[parent] + 1)
        if depth[state.id] > DEEPEST_STATES:
            yield state.id, f"{state.id} lies deeper than {DEEPEST_STATES} levels"


def _document_order(subject: Subject) -> Found:
    """A state's descendants follow it directly: only then is a subtree a range of positions."""
    stack: list[str] = []
    for state in subject.whole.states:
        while stack and stack[-1] != state.parent:
            stack.pop()
        if state.parent is not None and not stack:
            yield state.id, f"{state.id} does not stand with the other children of {state.parent}"
            return
        stack.append(state.id)


def _kinds(subject: Subject) -> Found:
    for state in subject.whole.states:
        children = subject.children.get(state.id, [])
        real = [child for child in children if child.kind not in HISTORY]
        if children and state.kind in LEAVES:
            yield state.id, f"{state.id} is {kind_name(state.kind)} and cannot have children"
        if not real and state.kind in {"compound", "parallel"}:
            yield state.id, f"{state.id} is {kind_name(state.kind)} and has no children"
        if state.kind == "parallel" and any(child.kind == "final" for child in children):
            yield state.id, f"{state.id} is parallel: its children are regions, not final states"
        if state.kind in HISTORY and state.parent is None:
            yield state.id, f"{state.id} is a history state and needs a state around it"


def _initial(subject: Subject) -> Found:
    whole = subject.whole
    if whole.computed is None and subject.native and len(whole.initial) != 1:
        said = "several states say" if whole.initial else "no outermost state says"
        yield (whole.initial or ("",))[-1], f"{said} initial=True: a life begins in exactly one"
    for name in whole.initial:
        yield from _known(subject, "", name, "the first state")
    if not subject.native:
        yield from _orthogonal(subject, "", "the start", whole.initial)
        for state in whole.states:
            yield from _orthogonal(subject, state.id, f"the start of {state.id}", state.initial)
    for state in whole.states:
        for name in state.initial:
            yield from _known(subject, state.id, name, f"the first state of {state.id}")
            if not _lies_in(subject, name, state.parent if state.kind in HISTORY else state.id):
                yield state.id, f"{name} cannot be first in {state.id}: it lies elsewhere"
            first = subject.states.get(name)
            if state.kind in HISTORY and first is not None and first.kind in HISTORY:
                yield state.id, f"{state.id} leads to {name}, which remembers nothing either: name a state"
        firsts = [name for name in state.initial if name in subject.states]
        if subject.native and state.kind == "compound" and len(firsts) > 1:
            yield state.id, f"{' and '.join(firsts)} both say initial=True in {state.id}"


def _lies_in(subject: Subject, name: str, around: str | None) -> bool:
    state = subject.states.get(name)
    while state is not None and state.parent is not None:
        if state.parent == around:
            return True
        state = subject.states.get(state.parent)
    return state is None or around is None


def _known(subject: Subject, place: str, name: str, role: str) -> Found:
    if name not in subject.states:
        yield place, f"{role} is {name!r}, which does not exist{suggestion(name, subject.states)}"


def _transitions(subject: Subject) -> Found:
    for row in subject.whole.transitions:
        place = f"{row.name}@{row.source}"
        yield from _ends(subject, place, row)
        if row.excludes and row.source != model.ROOT:
            yield place, f"{row.name} has but=, which goes with any_live only"
        if len(row.targets) > 1:
            yield from _orthogonal(subject, place, row.name, row.targets)
        for event in row.events:
            if not _EVENT_NAME.fullmatch(event):
                yield place, f"{event!r} is no name for an event"
        if subject.native:
            yield from _own_events(subject, place, row)


def _ends(subject: Subject, place: str, row: model.Transition) -> Found:
    if row.source != model.ROOT:
        yield from _known(subject, place, row.source, f"the source of {row.name}")
    for target in (*row.targets, *row.lands, *row.excludes):
        yield from _known(subject, place, target, f"a state of {row.name}")
    source = subject.states.get(row.source)
    if source is not None and source.kind in HISTORY:
        yield place, f"{row.name} leaves the history state {source.id}, in which nothing ever is"
    if source is not None and source.kind == "final":
        yield place, f"{row.name} leaves {source.id}, which is final"


def _orthogonal(subject: Subject, place: str, role: str, targets: tuple[str, ...]) -> Found:
    """Several targets are active together only in different regions of a parallel state."""
    paths = [_path(subject, target) for target in targets if target in subject.states]
    for position, one in enumerate(paths):
        for other in paths[position + 1 :]:
            shared = [name for name in one if name in other]
            around = subject.states[shared[0]].kind if shared else "compound"
            if around != "parallel":
                yield place, f"{role} goes to {one[0]} and {other[0]}, which cannot be active together"


def _path(subject: Subject, name: str) -> list[str]:
    path, state = [], subject.states.get(name)
    while state is not None:
        path.append(state.id)
        state = subject.states.get(state.parent or "")
    return path


def _own_events(subject: Subject, place: str, row: model.Transition) -> Found:
    for event in row.events:
        first, _, rest = event.partition(".")
        if event in {"timer", "work.done", "work.failed", "work.progress"}:
            yield place, f"{row.name}: the event {event} is the engine's own"
        elif first == "after" and row.after is not None:
            continue
        elif comes_from_engine(event) and event != "child.changed" and not _promised(subject, event):
            yield place, f"{row.name} waits for {event}, which never comes: {_why_never(first, rest)}"
    if row.lands and subject.whole.computed is None:
        yield place, f"{row.name} uses .computes(), which is for charts with computed="


def _promised(subject: Subject, event: str) -> bool:
    first, _, rest = event.partition(".")
    kind, _, name = rest.partition(".")
    state = subject.states.get(name.partition(".")[0] if first in {"done", "error"} else rest)
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
    }.get(first, f"names that begin with {first}. are the engine's own")


def _duties(subject: Subject) -> Found:
    names = {row.name for row in subject.whole.transitions}
    known = names | {event for row in subject.whole.transitions for event in row.events}
    for row in subject.whole.transitions:
        place = f"{row.name}@{row.source}"
        for earlier in row.distinct_from:
            if earlier not in known:
                hint = suggestion(earlier, known)
                yield place, f"{row.name} is distinct_from {earlier!r}, which does not exist{hint}"
        if not 1 <= row.quorum <= LARGEST_QUORUM:
            yield place, f"{row.name} has a quorum of {row.quorum}: it lies between 1 and {LARGEST_QUORUM}"
        if subject.native and not any(map(comes_from_people, row.events)):
            yield from _unheeded(place, row)
    if subject.whole.cancel is not None and subject.whole.cancel not in names:
        yield "", f"cancel={subject.whole.cancel!r} does not exist{suggestion(subject.whole.cancel, names)}"


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
        yield place, f"{row.name} has {word}=, which nobody heeds: only the engine fires it"


def _computed(subject: Subject) -> Found:
    whole = subject.whole
    for state in whole.states:
        if state.where is not None and (whole.computed is None or state.parent is not None):
            yield state.id, f"{state.id} has where=, which is for outermost states of charts with computed="
        if whole.computed and state.parent is None and state.where is None:
            yield state.id, f"{state.id} needs where=: the status of {whole.name} is computed"
    for row in whole.transitions if whole.computed else ():
        for target in row.targets:
            if target in subject.states and subject.states[target].parent is None:
                place = f"{row.name}@{row.source}"
                yield (
                    place,
                    f"{row.name} assigns the status {target}; it is computed: write .computes({target})",
                )


def _upgrades(subject: Subject) -> Found:
    """Where living instances of older versions go must be somewhere they can stand."""
    version = subject.whole.version
    for upgrade in subject.whole.upgrades:
        said = f"the upgrade from version {upgrade.version}"
        if not 1 <= upgrade.version < version:
            yield "", f"{said} leads to version {version}, which is not a later one"
        for message in (*_destinations(subject, said, upgrade), *_upgraded_words(subject, said, upgrade)):
            yield "", message


def _destinations(subject: Subject, said: str, upgrade: model.Upgrade) -> Iterator[str]:
    for state, to in upgrade.states.items():
        for name in () if isinstance(to, model.Named) else to:
            yield from (each for _, each in _known(subject, "", name, f"{said}: where {state} goes"))
            if name in subject.states and subject.states[name].kind == "final" and name != state:
                yield f"{said} ends instances in {name}: a life ends by an event, not by an upgrade"
    for name in upgrade.restarts:
        yield from (each for _, each in _known(subject, "", name, f"{said}: a state that restarts"))
        if name in subject.states and subject.states[name].run is None:
            yield f"{said} restarts {name}, which has no run="


def _upgraded_words(subject: Subject, said: str, upgrade: model.Upgrade) -> Iterator[str]:
    whole = subject.whole
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


DECISIVE: tuple[Callable[[Subject], Found], ...] = (_has_states, _tree)
"""Once these fail, the rest would only repeat them."""

CHECKS: tuple[Callable[[Subject], Found], ...] = (
    _has_states,
    _tree,
    _document_order,
    limits.names,
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
    contents.expressions,
    contents.actions,
)
