"""The states of a model as a tree, looked up by searching: the ground the naive interpreter stands on."""
# ruff: noqa: D102 - the methods bear the names of the recommendation, which tells what they are

from __future__ import annotations

from collections.abc import Iterable

from headway.statechart import model

ROOT = model.State(id=model.ROOT, kind="compound")


class Tree:
    """Questions about where states stand, as Appendix D of the recommendation asks them."""

    def __init__(self, whole: model.Model) -> None:
        self.model = whole
        self.states = {state.id: state for state in whole.states} | {model.ROOT: ROOT}
        self.order = [ROOT, *whole.states]

    def sorted(self, states: Iterable[model.State]) -> list[model.State]:
        wanted = {state.id for state in states}
        return [state for state in self.order if state.id in wanted]

    def parent(self, state: model.State) -> model.State | None:
        if state is ROOT:
            return None
        return self.states[state.parent or model.ROOT]

    def child_states(self, state: model.State) -> list[model.State]:
        children = [s for s in self.model.states if (s.parent or model.ROOT) == state.id]
        return [s for s in children if not self.is_history(s)]

    def histories(self, state: model.State) -> list[model.State]:
        return [s for s in self.model.states if self.is_history(s) and (s.parent or model.ROOT) == state.id]

    def proper_ancestors(self, state: model.State, limit: model.State | None) -> list[model.State]:
        found = []
        above = self.parent(state)
        while above is not None and above is not limit:
            found.append(above)
            above = self.parent(above)
        return found

    def is_descendant(self, state: model.State, above: model.State) -> bool:
        return above in self.proper_ancestors(state, None)

    def is_history(self, state: model.State) -> bool:
        return state.kind in ("shallow", "deep")

    def is_atomic(self, state: model.State) -> bool:
        return state.kind in ("atomic", "final")

    def default_targets(self, state: model.State) -> tuple[str, ...]:
        chosen = self.model.initial if state is ROOT else state.initial
        return chosen or (self.child_states(state)[0].id,)

    def history_targets(self, state: model.State) -> tuple[str, ...]:
        """A history state that says nothing stands, at first, for what its parent would enter."""
        parent = self.parent(state)
        assert parent is not None
        if state.initial:
            return state.initial
        if parent.kind == "parallel":
            return tuple(child.id for child in self.child_states(parent))
        return self.default_targets(parent)

    def named(self, names: Iterable[str]) -> list[model.State]:
        return [self.states[name] for name in names]
