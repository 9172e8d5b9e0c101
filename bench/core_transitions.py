"""The charts of the core suite in `transitions`."""

from collections.abc import Sequence

from transitions import Machine
from transitions.extensions import HierarchicalMachine

from bench.core_course import LIMIT

_SEPARATOR = "_"


class _Model:
    state: str | list[str]  # put there by the machine, as are the triggers

    def __init__(self) -> None:
        self.n = 0
        self.remembered: str | list[str] = []

    def below_limit(self) -> bool:
        return self.n < LIMIT

    def bump(self) -> None:
        self.n += 1

    def remember(self) -> None:
        self.remembered = self.state


class TransitionsMachine:
    """A model driven through its triggers, as in `model.go()`: the fastest of its ways."""

    def __init__(self, model: _Model) -> None:
        self._model = model

    def run(self, events: Sequence[str], cycles: int) -> None:
        """Send the events in order, that many times over."""
        triggers = [getattr(self._model, event) for event in events]
        for _ in range(cycles):
            for trigger in triggers:
                trigger()

    def leafs(self) -> frozenset[str]:
        """The names of the active atomic states, without those of their ancestors."""
        state = self._model.state
        active = [state] if isinstance(state, str) else state
        return frozenset(name.rpartition(_SEPARATOR)[2] for name in active)

    def count(self) -> int:
        """The counter of the model."""
        return self._model.n


def flat() -> TransitionsMachine:
    """The ring of six, in the plain Machine, which is its faster one."""
    model = _Model()
    names = [f"s{number}" for number in range(6)]
    machine = Machine(model=model, states=names, initial="s0", auto_transitions=False)
    machine.add_transition("go", "s0", "s1", conditions="below_limit")
    machine.add_transition("go", "s1", "s2", after="bump")
    for number in range(2, 6):
        machine.add_transition("go", names[number], names[(number + 1) % 6])
    return TransitionsMachine(model)


def nested() -> TransitionsMachine:
    """Three levels, in the HierarchicalMachine; transitions stand as deep as they can: it is quicker."""
    model = _Model()
    a = {"name": "a", "initial": "a1", "children": ["a1", "a2"], "transitions": [["next", "a1", "a2"]]}
    b = {"name": "b", "initial": "b1", "children": ["b1", "b2"], "transitions": [["next", "b1", "b2"]]}
    cross = {"trigger": "cross", "source": "a_a2", "dest": "b_b1", "conditions": "below_limit"}
    within = [cross, ["up", "b", "a"]]
    work = {"name": "work", "initial": "a", "children": [a, b], "transitions": within}
    c = {"name": "c", "initial": "c1", "children": ["c1"]}
    away = {"name": "away", "initial": "c", "children": [c]}
    machine = HierarchicalMachine(model=model, states=[work, away], initial="work", auto_transitions=False)
    machine.add_transition("leave", "work", "away")
    machine.add_transition("back", "away_c_c1", "work_a_a1", after="bump")
    return TransitionsMachine(model)


def parallel() -> TransitionsMachine:
    """Two regions; there are no history states, so leaving remembers and returning restores."""
    model = _Model()
    flip = [["flip", "l1", "l2"], ["flip", "l2", "l1"]]
    guarded = {"trigger": "flop", "source": "r1", "dest": "r2", "conditions": "below_limit"}
    left = {"name": "left", "initial": "l1", "children": ["l1", "l2"], "transitions": flip}
    right = {
        "name": "right",
        "initial": "r1",
        "children": ["r1", "r2"],
        "transitions": [guarded, ["flop", "r2", "r1"]],
    }
    regions = {"name": "regions", "parallel": [left, right]}
    both = {"name": "both", "initial": "regions", "children": [regions]}
    machine = HierarchicalMachine(model=model, states=[both, "out"], initial="both", auto_transitions=False)

    def restore() -> None:
        machine.set_state(model.remembered, model)

    machine.add_transition("leave", "both", "out", before="remember", after="bump")
    machine.add_transition("back", "out", "both", after=restore)
    return TransitionsMachine(model)
