"""An abstract chart for exploration: what depends on data becomes a choice, and every choice is tried."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

from headway.codec import replace
from headway.statechart import model
from headway.statechart.chart import Chart
from headway.statechart.explore.facts import RuleFacts
from headway.statechart.expressions.expressions import free_names, location_or_failing, parse_or_failing
from headway.statechart.refusal import Veto
from headway.statechart.step.draft import View
from headway.statechart.tree import Function

Actions = tuple[model.Action, ...]
SECOND = 1_000
YES, NO = 0, 1
MOST_ROWS = 100
"""The most rows that one step may take with arbitrary guard answers; more count as endless."""
OWN_ADDRESS = frozenset({None, "", "#_internal"})


class StepChoices:
    """The choices of one step: from a script, then the first option; kept, so that every one is tried."""

    def __init__(self, most_rows: int = MOST_ROWS) -> None:
        self.most_rows = most_rows
        self.begin(())

    def begin(self, script: tuple[int, ...]) -> None:
        """Forget the last step and answer the next one by this script."""
        self.script = script
        self.answers: list[int] = []
        self.options: list[int] = []
        self.known: dict[Hashable, int] = {}
        self.fired: list[int] = []
        self.denied: list[tuple[int, str, tuple[str, ...]]] = []

    def choose(self, question: Hashable, options: int) -> int:
        """An answer; the same question gets the same one within a step."""
        if question in self.known:
            return self.known[question]
        position = len(self.answers)
        answer = self.script[position] if position < len(self.script) else YES
        self.answers.append(answer)
        self.options.append(options)
        self.known[question] = answer
        return answer

    def further_scripts(self) -> Iterable[tuple[int, ...]]:
        """The scripts that take another turn where the last step had a choice beyond its script."""
        for position in range(len(self.script), len(self.answers)):
            for other in range(1, self.options[position]):
                yield (*self.answers[:position], other)

    def mark(self, row: int) -> None:
        """Note that a row fired; refuses a step whose answers seem to lead round in a circle."""
        self.fired.append(row)
        if self.answers and len(self.fired) > self.most_rows:
            raise Veto("runaway", f"more than {self.most_rows} transitions follow from one step")

    def guard(self, arc: int, condition: str, *, once: bool = False) -> Function:
        """A guard that says yes or no by choice; `once`: no to a row that has just fired."""

        def answer(view: View) -> bool:
            if once and self.fired[-1:] == [arc]:
                return False
            holds = self.choose((condition, view.event.name, view.states), 2) == YES
            if not holds:
                self.denied.append((arc, condition, view.states))
            return holds

        return answer


class Abstraction:
    """Makes the abstract chart of one chart."""

    def __init__(self, chart: Chart, choices: StepChoices, facts: RuleFacts) -> None:
        self.original = chart
        self.choices = choices
        self.facts = facts
        self.functions: dict[str, Function] = {}

    def chart(self) -> Chart:
        """The same states and rows; guards are choices, and actions do only what exploration keeps."""
        whole = self.original.model
        abstract = replace(
            whole,
            states=tuple(self._state(state) for state in whole.states),
            transitions=tuple(self._row(index, row) for index, row in enumerate(whole.transitions)),
            initial_actions=self.actions(whole.initial_actions),
            context=None,
            data=(),
            schemas={},
            invariants=(),
            max_depth=1_000,
            max_children=None,
        )
        return Chart(abstract, self.functions)

    def _state(self, state: model.State) -> model.State:
        return replace(
            state,
            ask=None if state.ask is None else replace(state.ask, form=None, shows=()),
            entry=tuple(self.actions(block) for block in state.entry),
            exit=tuple(self.actions(block) for block in state.exit),
            initial_actions=self.actions(state.initial_actions),
            output=None,
            data=(),
        )

    def _row(self, index: int, row: model.Transition) -> model.Transition:
        actions = self.actions(row.actions)
        # A row that follows by itself and changes nothing that is kept here leads to the same place always.
        once = not (row.events or row.targets or actions) and row.after is None
        conditions = [self._condition(index, condition, once=once) for condition in row.when]
        return replace(
            row,
            when=tuple(conditions),
            takes=None,
            after=row.after if isinstance(row.after, int | None) else SECOND,
            actions=(self._mark(index), *actions),
        )

    def _mark(self, index: int) -> model.Call:
        """An action that only says that this row fired."""
        return self._register(f"row {index}", lambda _view: self.choices.mark(index))

    def _register(self, name: str, function: Function) -> model.Call:
        self.functions[name] = function
        return model.Call(name=name)

    def _condition(self, index: int, condition: model.Condition, *, once: bool) -> model.Condition:
        if isinstance(condition, model.Formula) and self.decides(condition.text):
            return condition
        text = condition.name if isinstance(condition, model.Named) else condition.text
        name = f"guard {index}: {text}"
        self.functions[name] = self.choices.guard(index, text, once=once)
        return model.Named(name=name)

    def decides(self, text: str | None) -> bool:
        """Whether an expression looks at nothing but active states and the facts that exploration keeps."""
        if text is None:
            return True
        expression = parse_or_failing(text)
        return expression.error is None and free_names(expression) <= self.facts.kept

    def actions(self, actions: Iterable[model.Action]) -> Actions:
        """What is left of a block of actions."""
        return tuple(left for action in actions for left in self._left(action))

    def _left(self, action: model.Action) -> Actions:
        keep = KEPT.get(type(action))
        return () if keep is None else keep(self, action)

    def asking(self, options: list[Actions]) -> Actions:
        """An action that runs one of the options; the explorer tries each."""
        name = f"choice {len(self.functions)}"
        choices = self.choices

        def choose(view: View) -> Actions:
            return options[choices.choose((name, view.event.name, view.states), len(options))]

        return (self._register(name, choose),)


def _unknown_call(abstraction: Abstraction, _action: model.Call) -> Actions:
    """A Python action may write what no declared action writes, and create children nobody else creates."""
    unowned = abstraction.facts.unowned
    written = tuple(action for name in sorted(unowned) for action in _anything(abstraction, name, keep=True))
    return (*written, *(_children(abstraction) if abstraction.facts.spawned_by_functions else ()))


def _anything(abstraction: Abstraction, name: str, *, keep: bool = False) -> Actions:
    values = abstraction.facts.candidates.get(name, ())
    options: list[Actions] = [(model.Put(values={name: value}),) for value in values]
    return abstraction.asking([()] * keep + options) if options else ()


def _put(abstraction: Abstraction, action: model.Put) -> Actions:
    values = {name: value for name, value in action.values.items() if name in abstraction.facts.names}
    return (model.Put(values=values),) if values else ()


def _assign(abstraction: Abstraction, action: model.Assign) -> Actions:
    root = location_or_failing(action.location).root
    if root == action.location and root in abstraction.facts.names and abstraction.decides(action.expr):
        return (action,)
    return _anything(abstraction, root)


def _stamp(abstraction: Abstraction, action: model.Stamp) -> Actions:
    fields = tuple(field for field in action.fields if field in abstraction.facts.names)
    return (model.Stamp(fields=fields),) if fields else ()


def _clear(abstraction: Abstraction, action: model.Clear) -> Actions:
    fields = tuple(field for field in action.fields if field in abstraction.facts.names)
    return (model.Clear(fields=fields),) if fields else ()


def _count(abstraction: Abstraction, action: model.Count) -> Actions:
    values = abstraction.facts.counters.get(action.name)
    if values is None:
        return ()
    if abstraction.decides(action.expr):
        return (action,)
    return abstraction.asking([(model.Count(name=action.name, by=value),) for value in values])


def _raise(_abstraction: Abstraction, action: model.Raise) -> Actions:
    return (model.Raise(event=action.event),)


def _send(_abstraction: Abstraction, action: model.Send) -> Actions:
    if action.event is None or action.target_expr is not None or action.target not in OWN_ADDRESS:
        return ()
    delay = action.delay if action.delay_expr is None else SECOND
    return (model.Send(event=action.event, target=action.target, id=action.id, delay=delay),)


def _cancel(_abstraction: Abstraction, action: model.Cancel) -> Actions:
    return () if action.id is None else (model.Cancel(id=action.id),)


def _if(abstraction: Abstraction, action: model.If) -> Actions:
    arms = [abstraction.actions(branch.actions) for branch in action.branches]
    if not any(arms):
        return ()
    if all(abstraction.decides(branch.when) for branch in action.branches):
        whens = [branch.when for branch in action.branches]
        pairs = zip(whens, arms, strict=True)
        return (model.If(branches=tuple(model.Branch(when=when, actions=arm) for when, arm in pairs)),)
    certain = any(branch.when is None for branch in action.branches)
    return abstraction.asking(arms if certain else [*arms, ()])


def _foreach(abstraction: Abstraction, action: model.ForEach) -> Actions:
    inner = abstraction.actions(action.actions)
    return abstraction.asking([inner, ()]) if inner else ()


def _spawn(abstraction: Abstraction, _action: model.Spawn) -> Actions:
    return _children(abstraction)


def _children(abstraction: Abstraction) -> Actions:
    """The most children that are counted exactly; larger numbers count as equal."""
    most = abstraction.facts.most_children

    def spawn(view: View) -> Actions:
        room = most - sum(view.children.values())
        if room <= 0:
            return ()
        number = room - abstraction.choices.choose(("children", view.states), room)
        return tuple(model.Spawn(chart="") for _ in range(number))

    return (abstraction._register("children", spawn),)  # noqa: SLF001 - the table's functions are its methods


KEPT: dict[type, Callable[[Abstraction, Any], Actions]] = {
    model.Call: _unknown_call,
    model.Put: _put,
    model.Assign: _assign,
    model.Stamp: _stamp,
    model.Clear: _clear,
    model.Count: _count,
    model.Raise: _raise,
    model.Send: _send,
    model.Cancel: _cancel,
    model.If: _if,
    model.ForEach: _foreach,
    model.Spawn: _spawn,
}
