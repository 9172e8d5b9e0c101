"""Turn the nodes of an expression into functions of the scope, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import singledispatch
from typing import Protocol

from headway.errors import EvaluationError
from headway.statechart.expressions.parser import (
    Call,
    Chain,
    Conditional,
    ListOf,
    Literal,
    Logical,
    Method,
    Name,
    Node,
    ObjectOf,
    Path,
    Unary,
)
from headway.statechart.expressions.values import (
    BINARY,
    FUNCTIONS,
    UNARY,
    as_text,
    concat,
    item_at,
    kind_of,
    truthy,
    typeof,
)


class Scope(Protocol):
    """What an expression can see."""

    def lookup(self, name: str) -> object:
        """Return the value of a name; raise KeyError when there is none."""

    def in_state(self, name: str) -> bool:
        """Tell whether a state is active."""


Evaluator = Callable[[Scope], object]


@singledispatch
def compiled(node: Node) -> Evaluator:
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


def _compiled_step(node: Node) -> Callable[[object, Scope], object]:
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


def _compiled_typeof(node: Node) -> Evaluator:
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
def _(node: Call) -> Evaluator:
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
