"""Random charts that are well formed, and random events for them.

A generator draws from a `random.Random`: a seeded one makes thousands quickly, the one hypothesis
hands out makes charts that shrink when a test fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from hypothesis import strategies as st

from headway import View
from headway.codec import replace
from headway.statechart import model
from headway.statechart.chart import Chart

EVENTS = ("go", "go", "stop", "note.a", "note.a", "note.a.x", "note.a.x", "note.b", "other")
HEARD = ("go", "go", "stop", "note", "note.a", "note.a.*", "note.*", "note.b", "note.a.x")
RAISED = ("in.1", "in.2")
HEARD_INSIDE = ("in", "in.1", "in.2", "*", "done", "done.state")
DELAYS = (10, 20, 20, 50, 1_000)
FUEL = 6
MOST_STATES, DEEPEST, HIGHEST_SHARE = 12, 4, 100


def _flag_p(context: Mapping[str, Any], _counters: Mapping[str, int]) -> bool:
    return bool(context["p"])


def _flag_q(context: Mapping[str, Any], _counters: Mapping[str, int]) -> bool:
    return bool(context["q"])


def _p_not_q(context: Mapping[str, Any], _counters: Mapping[str, int]) -> bool:
    return bool(context["p"]) and not context["q"]


def _fuel_left(_context: Mapping[str, Any], counters: Mapping[str, int]) -> bool:
    return counters.get("spent", 0) < FUEL


GUARDS: dict[str, Callable[[Mapping[str, Any], Mapping[str, int]], bool]] = {
    "p": _flag_p,
    "q": _flag_q,
    "p_not_q": _p_not_q,
    "fuel_left": _fuel_left,
}


def as_function(guard: Callable[[Mapping[str, Any], Mapping[str, int]], bool]) -> Callable[[View], bool]:
    """The guard as a chart calls it."""
    return lambda view: guard(view.context, view.counters)


def chart_of_model(whole: model.Model) -> Chart:
    """The chart, with the guards of this module."""
    return Chart(whole, {name: as_function(guard) for name, guard in GUARDS.items()})


def random_model(rng: Random) -> model.Model:
    """A chart of 1 to 12 states, with everything SCXML has but its data model."""
    states = _Tree(rng).states()
    return model.Model(
        name="Random",
        initial=_outermost(rng, states),
        initial_actions=(model.Log(label="begin"),),
        states=tuple(states),
        transitions=_Rows(rng, states).rows(),
    )


def random_context(rng: Random) -> dict[str, bool]:
    """The flags the guards look at."""
    return {"p": _chance(rng, 50), "q": _chance(rng, 50)}


def random_events(rng: Random) -> list[str | int]:
    """Names of events to send, and numbers: that many due timers fire."""
    return [rng.choice((*EVENTS, 1, 2)) for _ in range(rng.randint(1, 15))]


Case = tuple[model.Model, dict[str, bool], list[str | int]]


def random_case(rng: Random) -> Case:
    """A chart, a first context and what happens to it."""
    return random_model(rng), random_context(rng), random_events(rng)


cases: st.SearchStrategy[Case] = st.builds(random_case, st.randoms(use_true_random=False))


def _chance(rng: Random, percent: int) -> bool:
    return rng.randint(1, HIGHEST_SHARE) <= percent


def _outermost(rng: Random, states: list[model.State]) -> tuple[str, ...]:
    if _chance(rng, 50):
        return ()
    return (rng.choice([s.id for s in states if s.parent is None and s.kind != "final"]),)


class _Tree:
    """Grows the states of one chart, each before its children."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.left = max(rng.randint(1, MOST_STATES), rng.randint(1, MOST_STATES))
        # Where nothing happens on the way, an interpreter may take short cuts: they are to be judged too.
        self.silent = _chance(rng, 35)
        self.made: list[dict[str, Any]] = []

    def states(self) -> list[model.State]:
        self.children(None, 0, self.rng.randint(2, 4), last_may_be_final=True)
        return [model.State(**self.completed(fields)) for fields in self.made]

    def children(self, parent: str | None, depth: int, wanted: int, *, last_may_be_final: bool) -> None:
        """The first is never final, so that there is somewhere to begin."""
        for number in range(wanted):
            if number and self.left <= 0:
                break
            final = last_may_be_final and number and _chance(self.rng, 40)
            self.state(parent, depth, "final" if final else self.kind(depth))

    def kind(self, depth: int) -> str:
        if depth + 1 >= DEEPEST or self.left < 3:
            return "atomic"
        return self.rng.choice(("atomic", "atomic", "compound", "compound", "parallel"))

    def state(self, parent: str | None, depth: int, kind: str) -> None:
        self.left -= 1
        name = f"s{len(self.made)}"
        self.made.append({"id": name, "kind": kind, "parent": parent})
        if kind not in {"compound", "parallel"}:
            return
        if _chance(self.rng, 45):
            self.state(name, depth + 1, self.rng.choice(("shallow", "deep")))
        self.children(name, depth + 1, self.rng.randint(2, 3), last_may_be_final=kind == "compound")

    def completed(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The state with its actions, and with the children it stands for at first."""
        rng, name, kind = self.rng, fields["id"], fields["kind"]
        first: tuple[model.Action, ...] = () if self.silent else (model.Log(label=f"first of {name}"),)
        if kind in {"shallow", "deep"}:
            return fields | {"initial": self.default_of(fields), "initial_actions": first}
        if kind == "compound":
            fields = fields | {"initial": self.first_of(name), "initial_actions": first}
        if self.silent:
            return fields
        return fields | {
            "entry": ((model.Log(label=f"+{name}"), *_some_actions(rng, 15)),),
            "exit": ((model.Log(label=f"-{name}"), *_some_actions(rng, 10)),),
        }

    def below(self, parent: str, *, deep: bool) -> list[str]:
        """The states inside a parent, history states aside."""
        direct = [each for each in self.made if each["parent"] == parent]
        found = [each["id"] for each in direct if each["kind"] not in {"shallow", "deep"}]
        if not deep:
            return found
        return [name for child in found for name in (child, *self.below(child, deep=True))]

    def first_of(self, name: str) -> tuple[str, ...]:
        if _chance(self.rng, 40):
            return ()
        histories = [e["id"] for e in self.made if e["parent"] == name and e["kind"] in {"shallow", "deep"}]
        deep = _chance(self.rng, 20)
        return (
            self.rng.choice((*self.below(name, deep=deep), *(histories if _chance(self.rng, 30) else ()))),
        )

    def default_of(self, history: dict[str, Any]) -> tuple[str, ...]:
        parent = next(each for each in self.made if each["id"] == history["parent"])
        if parent["kind"] == "parallel" or _chance(self.rng, 40):
            return (
                tuple(self.below(parent["id"], deep=False))
                if parent["kind"] == "parallel"
                else (self.below(parent["id"], deep=False)[0],)
            )
        return (self.rng.choice(self.below(parent["id"], deep=history["kind"] == "deep")),)


class _Rows:
    """Makes the transitions of one chart."""

    def __init__(self, rng: Random, states: list[model.State]) -> None:
        self.rng = rng
        self.states = states
        self.sources = [s.id for s in states if s.kind in {"atomic", "compound", "parallel"}]
        self.regions = [s for s in states if s.kind == "parallel"]

    def rows(self) -> tuple[model.Transition, ...]:
        count = self.rng.randint(len(self.states), 3 * len(self.states) + 2)
        return tuple(self.row(f"t{number}") for number in range(count))

    def row(self, name: str) -> model.Transition:
        rng = self.rng
        source = model.ROOT if _chance(rng, 8) else rng.choice(self.sources)
        trigger = rng.choice(
            ("heard", "heard", "heard", "heard", "inside", "inside", "done", "always", "after")
        )
        if trigger == "after" and source == model.ROOT:
            trigger = "heard"
        row = model.Transition(name=name, source=source, targets=self.targets(), internal=_chance(rng, 25))
        actions = (model.Log(label=name), *_some_actions(rng, 40))
        return TRIGGERS[trigger](self, row, actions)

    def targets(self) -> tuple[str, ...]:
        rng = self.rng
        if _chance(rng, 15):
            return ()
        if self.regions and _chance(rng, 20):
            return self.one_in_each_region(rng.choice(self.regions))
        return (rng.choice(self.states).id,)

    def one_in_each_region(self, parallel: model.State) -> tuple[str, ...]:
        regions = [s for s in self.states if s.parent == parallel.id and s.kind not in {"shallow", "deep"}]
        inside = [[s.id for s in self.states if self.within(s, region)] for region in regions]
        return tuple(self.rng.choice(choices) for choices in inside if _chance(self.rng, 80))

    def within(self, state: model.State, region: model.State) -> bool:
        by_id = {each.id: each for each in self.states}
        above: model.State | None = state
        while above is not None and above.id != region.id:
            above = by_id[above.parent] if above.parent else None
        return above is not None

    def guards(self) -> tuple[model.Condition, ...]:
        rng = self.rng
        choice = rng.choice(("none", "none", "none", "none", "p", "q", "p_not_q", "in"))
        if choice == "none":
            return ()
        if choice == "in":
            return (model.Formula(text=f"In('{rng.choice(self.states).id}')"),)
        return (model.Named(name=choice),)

    def heard(self, row: model.Transition, actions: tuple[model.Action, ...]) -> model.Transition:
        """Taken for events from outside only; each gives back fuel for what follows by itself."""
        events = tuple(self.rng.choice(HEARD) for _ in range(self.rng.randint(1, 2)))
        back = model.Count(name="spent", by=-2)
        return _with(
            row, events=events, when=self.guards(), actions=(*actions, back), excludes=self.excludes(row)
        )

    def excludes(self, row: model.Transition) -> tuple[str, ...]:
        if row.source != model.ROOT or _chance(self.rng, 50):
            return ()
        return (self.rng.choice(self.states).id,)

    def inside(self, row: model.Transition, actions: tuple[model.Action, ...]) -> model.Transition:
        return self.fuelled(row, actions, (self.rng.choice(HEARD_INSIDE),))

    def done(self, row: model.Transition, actions: tuple[model.Action, ...]) -> model.Transition:
        whole = [s.id for s in self.states if s.kind in {"compound", "parallel"}] or ["none"]
        return self.fuelled(row, actions, (f"done.state.{self.rng.choice(whole)}",))

    def always(self, row: model.Transition, actions: tuple[model.Action, ...]) -> model.Transition:
        return self.fuelled(row, actions, ())

    def fuelled(
        self, row: model.Transition, actions: tuple[model.Action, ...], events: tuple[str, ...]
    ) -> model.Transition:
        """What can follow by itself spends fuel, so that no chart runs for ever."""
        when = (model.Named(name="fuel_left"), *self.guards())
        return _with(row, events=events, when=when, actions=(*actions, model.Count(name="spent")))

    def after(self, row: model.Transition, actions: tuple[model.Action, ...]) -> model.Transition:
        events = (f"after.{row.source}.{row.name}",)
        return _with(row, events=events, after=self.rng.choice(DELAYS), when=self.guards(), actions=actions)


TRIGGERS: dict[str, Callable[[_Rows, model.Transition, tuple[model.Action, ...]], model.Transition]] = {
    "heard": _Rows.heard,
    "inside": _Rows.inside,
    "done": _Rows.done,
    "always": _Rows.always,
    "after": _Rows.after,
}


def _with(row: model.Transition, **fields: Any) -> model.Transition:
    return replace(row, **fields)


def _some_actions(rng: Random, percent: int) -> tuple[model.Action, ...]:
    if not _chance(rng, percent):
        return ()
    return tuple(_action(rng) for _ in range(rng.randint(1, 2)))


def _action(rng: Random) -> model.Action:
    sent_as = rng.choice(("one", "two"))
    made: tuple[model.Action, ...] = (
        model.Raise(event=rng.choice(RAISED)),
        model.Raise(event=rng.choice(RAISED)),
        model.Put(values={rng.choice(("p", "q")): _chance(rng, 50)}),
        model.Count(name="counted", by=rng.randint(-1, 3)),
        model.Send(event=rng.choice(RAISED)),
        model.Send(event=rng.choice(EVENTS), id=sent_as, delay=rng.choice(DELAYS)),
        model.Cancel(id=sent_as),
    )
    return rng.choice(made)
