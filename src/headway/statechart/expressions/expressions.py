"""The expressions of charts that come from outside: read once, evaluated safely, never run as code.

The language is a small part of ECMAScript with the words of Python beside it: names, numbers, strings,
`true false null undefined` (`True False None`), lists, objects, `a.k`, `a[i]`, `.length`, `== === != !==`,
`< <= > >=`, `in`, `not in`, `&& || !` (`and or not`), `+ - * / %`, `| &`, `a ? b : c`, `typeof`,
`instanceof Array`, `In('state')`, `len`, `JSON.stringify`, `list.concat`, `Math.abs ceil floor max min pow`.

It differs from ECMAScript where that would hide a mistake: a missing key, a position outside a list, a
division by zero or an operator on the wrong types is an EvaluationError (`typeof` and `in` ask first).
`in` looks for a key of an object, an equal item of a list, a part of a string. Lists and objects are
compared by value. What the operators do is in `values`.

Every text is bounded in length and nesting and every result in size, and each operator does at most
`MAX_SIZE` units of work, so neither a text nor the data can take the interpreter down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Protocol

from headway.errors import EvaluationError, ExpressionError
from headway.statechart.expressions.budget import spend, spend_parts
from headway.statechart.expressions.parser import (
    MAX_NESTING,
    Chain,
    Conditional,
    ExpressionNode,
    FunctionCall,
    ListOf,
    Literal,
    Logical,
    Method,
    Name,
    ObjectOf,
    Path,
    Unary,
    parse_node,
    walk,
)
from headway.statechart.expressions.tokens import MAX_LENGTH
from headway.statechart.expressions.values import (
    BINARY,
    FUNCTIONS,
    MAX_DEPTH,
    MAX_INTEGER,
    MAX_SIZE,
    UNARY,
    as_text,
    concat,
    inline_value,
    item_at,
    kind_of,
    list_position,
    measure,
    truthy,
    typeof,
)

__all__ = [
    "MAX_DEPTH",
    "MAX_INTEGER",
    "MAX_LENGTH",
    "MAX_NESTING",
    "MAX_SIZE",
    "EvaluationError",
    "Expression",
    "ExpressionError",
    "Location",
    "PlainScope",
    "Scope",
    "free_names",
    "inline_value",
    "location_or_failing",
    "parse",
    "parse_location",
    "parse_or_failing",
    "truthy",
]


class Scope(Protocol):
    """What an expression can see."""

    def lookup(self, name: str) -> object:
        """Return the value of a name; raise KeyError when there is none."""

    def in_state(self, name: str) -> bool:
        """Tell whether a state is active."""


Evaluator = Callable[[Scope], object]


@dataclass(frozen=True, slots=True)
class PlainScope:
    """A scope over a mapping of values and a set of active states."""

    values: Mapping[str, object]
    active: frozenset[str] = frozenset()

    def lookup(self, name: str) -> object:
        """Return the value of a name; raise KeyError when there is none."""
        return self.values[name]

    def in_state(self, name: str) -> bool:
        """Tell whether a state is active."""
        return name in self.active


@dataclass(frozen=True, slots=True)
class Expression:
    """A text of the language, ready to be evaluated; two are equal when their texts are."""

    text: str
    names: frozenset[str] = field(compare=False, repr=False)
    _run: Evaluator = field(compare=False, repr=False)
    error: ExpressionError | None = field(default=None, compare=False, repr=False)
    nodes: int = field(default=1, compare=False, repr=False)

    def evaluate(self, scope: Scope) -> object:
        """Return the value in `scope`; raise EvaluationError when there is none.

        Raises ExhaustedError when the step has evaluated too much.
        """
        spend(self.nodes)
        try:
            return self._run(scope)
        except EvaluationError as error:
            raise EvaluationError(error.message, self.text) from error

    def __reduce__(self) -> tuple[Callable[[str], Expression], tuple[str]]:
        return parse_or_failing, (self.text,)


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the data that can be assigned to: a name, and the keys that follow it."""

    text: str
    root: str = field(compare=False, repr=False)
    _keys: tuple[Evaluator, ...] = field(compare=False, repr=False)
    error: ExpressionError | None = field(default=None, compare=False, repr=False)

    def assign(
        self, data: Mapping[str, object], scope: Scope, value: object, *, declare: bool = False
    ) -> dict[str, object]:
        """Return a copy of `data` with `value` at this place; `declare` lets a plain name be new.

        Raises EvaluationError when the name is not declared or belongs to the system, when a key leads
        nowhere, or when the text was not a location. `data` itself and all it holds stay as they were.
        """
        try:
            return self._assigned(data, scope, value, declare=declare)
        except EvaluationError as error:
            raise EvaluationError(error.message, self.text) from error

    def _assigned(
        self, data: Mapping[str, object], scope: Scope, value: object, *, declare: bool
    ) -> dict[str, object]:
        if self.error is not None:
            raise EvaluationError(self.error.message)
        if self.root.startswith("_"):
            raise EvaluationError(f"{self.root} belongs to the system and cannot be assigned")
        if self.root not in data and (self._keys or not declare):
            raise EvaluationError(f"{self.root} is not declared")
        changed = dict(data)
        spend_parts(len(data))
        container: dict[str, object] | list[object] = changed
        key: object = self.root
        for next_key in [run(scope) for run in self._keys]:
            inner = _copied(item_at(container, key))
            _put(container, key, inner)
            container, key = inner, next_key
        _put(container, key, value)
        if self._keys:
            measure(changed[self.root])
        return changed

    def __reduce__(self) -> tuple[Callable[[str], Location], tuple[str]]:
        return location_or_failing, (self.text,)


def parse(text: str) -> Expression:
    """Read an expression; raise ExpressionError when the text is not in the language."""
    node = parse_node(text)
    nodes = list(walk(node))
    run = compiled(node)
    if any(isinstance(part, (ListOf, ObjectOf, Method)) for part in nodes):
        run = _measured(run)
    names = frozenset(part.name for part in nodes if isinstance(part, Name))
    return Expression(text, names, run, nodes=len(nodes))


def parse_or_failing(text: str) -> Expression:
    """Read an expression; for a text outside the language return one whose every evaluation fails."""
    try:
        return parse(text)
    except ExpressionError as error:
        return Expression(text, frozenset(), _failing(error.message), error)


def parse_location(text: str) -> Location:
    """Read a place to assign to; raise ExpressionError when the text is none."""
    node = parse_node(text)
    start, steps = (node.start, node.steps) if isinstance(node, Path) else (node, ())
    if not isinstance(start, Name) or any(isinstance(step, Method) for step in steps):
        raise ExpressionError("not a place that can be assigned to", text, 0)
    return Location(text, start.name, tuple(compiled(step) for step in steps))


def location_or_failing(text: str) -> Location:
    """Read a place to assign to; for any other text return one to which every assignment fails."""
    try:
        return parse_location(text)
    except ExpressionError as error:
        return Location(text, "", (), error)


def free_names(expression: Expression) -> frozenset[str]:
    """Return the names an expression looks up; none for a text outside the language."""
    return expression.names


def _copied(value: object) -> dict[str, object] | list[object]:
    if isinstance(value, (list, tuple, Mapping)):
        spend_parts(len(value))
        return dict(value) if isinstance(value, Mapping) else list(value)
    raise EvaluationError(f"cannot assign inside {kind_of(value)}")


def _put(container: dict[str, object] | list[object], key: object, value: object) -> None:
    """Set a key of an object, or a position of a list, the one after its last included."""
    if isinstance(container, dict):
        container[as_text(key)] = value
        return
    position = list_position(key)
    if position > len(container):
        raise EvaluationError(f"position {position} is outside a list of {len(container)}")
    container[position : position + 1] = [value]


def _measured(run: Evaluator) -> Evaluator:
    return lambda scope: measure(run(scope))


def _failing(message: str) -> Evaluator:
    def run(_scope: Scope) -> object:
        raise EvaluationError(message)

    return run


@singledispatch
def compiled(node: ExpressionNode) -> Evaluator:
    """Turn a node into a function of the scope."""
    raise TypeError(f"no way to evaluate {type(node).__name__}")


@compiled.register
def _(node: Literal) -> Evaluator:
    value = node.value
    return lambda _scope: value


@compiled.register
def _(node: Name) -> Evaluator:
    name = node.name

    def run(scope: Scope) -> object:
        try:
            return scope.lookup(name)
        except KeyError:
            raise EvaluationError(f"unknown name {name}") from None

    return run


@compiled.register
def _(node: ListOf) -> Evaluator:
    items = [compiled(item) for item in node.items]
    return lambda scope: [item(scope) for item in items]


@compiled.register
def _(node: ObjectOf) -> Evaluator:
    pairs = [(key, compiled(value)) for key, value in node.pairs]
    return lambda scope: {key: value(scope) for key, value in pairs}


@compiled.register
def _(node: Path) -> Evaluator:
    start = compiled(node.start)
    steps = [_compiled_step(step) for step in node.steps]

    def run(scope: Scope) -> object:
        value = start(scope)
        for step in steps:
            value = step(value, scope)
        return value

    return run


def _compiled_step(node: ExpressionNode) -> Callable[[object, Scope], object]:
    if isinstance(node, Method):
        arguments = [compiled(argument) for argument in node.arguments]
        return lambda value, scope: concat(value, *(argument(scope) for argument in arguments))
    key = compiled(node)
    return lambda value, scope: item_at(value, key(scope))


@compiled.register
def _(node: Unary) -> Evaluator:
    if node.operator == "typeof":
        return _compiled_typeof(node.operand)
    operation, operand = UNARY[node.operator], compiled(node.operand)
    return lambda scope: operation(operand(scope))


def _compiled_typeof(node: ExpressionNode) -> Evaluator:
    """A name nobody declared, or a key an object does not have, is of type undefined."""
    if isinstance(node, Name):
        name = node.name

        def of_name(scope: Scope) -> object:
            try:
                return typeof(scope.lookup(name))
            except KeyError:
                return typeof(None)

        return of_name
    if isinstance(node, Path) and not isinstance(node.steps[-1], Method):
        owner, key = compiled(Path(node.start, node.steps[:-1])), compiled(node.steps[-1])

        def of_key(scope: Scope) -> object:
            value = owner(scope)
            if isinstance(value, Mapping):
                return typeof(value.get(as_text(key(scope))))
            return typeof(item_at(value, key(scope)))

        return of_key
    operand = compiled(node)
    return lambda scope: typeof(operand(scope))


@compiled.register
def _(node: Chain) -> Evaluator:
    first = compiled(node.first)
    rest = [(BINARY[operator], compiled(operand)) for operator, operand in node.rest]
    if len(rest) == 1:
        ((operation, second),) = rest
        return lambda scope: operation(first(scope), second(scope))

    def run(scope: Scope) -> object:
        value = first(scope)
        for operation, operand in rest:
            value = operation(value, operand(scope))
        return value

    return run


@compiled.register
def _(node: Logical) -> Evaluator:
    operands = [compiled(operand) for operand in node.operands]
    decided = node.operator == "||"

    def run(scope: Scope) -> object:
        value: object = None
        for operand in operands:
            value = operand(scope)
            if truthy(value) is decided:
                break
        return value

    return run


@compiled.register
def _(node: Conditional) -> Evaluator:
    test, yes, no = compiled(node.test), compiled(node.yes), compiled(node.no)
    return lambda scope: yes(scope) if truthy(test(scope)) else no(scope)


@compiled.register
def _(node: FunctionCall) -> Evaluator:
    arguments = [compiled(argument) for argument in node.arguments]
    if node.name == "In":
        return _compiled_in(arguments[0])
    function = FUNCTIONS[node.name]
    return lambda scope: function(*(argument(scope) for argument in arguments))


def _compiled_in(state: Evaluator) -> Evaluator:
    def run(scope: Scope) -> object:
        name = state(scope)
        if not isinstance(name, str):
            raise EvaluationError(f"In needs the name of a state, not {kind_of(name)}")
        return scope.in_state(name)

    return run
