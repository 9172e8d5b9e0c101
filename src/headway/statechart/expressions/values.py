"""What the operators of the expression language do to values.

Values are JSON's. There is one number type: an integral result is an `int`, beyond 2**53 a `float`, and
what is not finite is an error. `null` and `undefined` are one value, `None`. Truth is ECMAScript's: only
`null`, `false`, `0` and the empty string are false, so an empty list is true. Nothing is converted to
compare it: `1 == '1'` and `1 == true` are false.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from headway.codec import DEEPEST
from headway.errors import EvaluationError
from headway.statechart.expressions.budget import spend_parts, spend_text

MAX_SIZE: Final = 100_000
MAX_DEPTH: Final = DEEPEST
MAX_INTEGER: Final = 2**53
_SHOWN = 80
_PLAIN_DIGITS = 21
_PLAIN_ZEROS = -7


class _Work:
    """How much one operator may still look at."""

    def __init__(self) -> None:
        self.left = MAX_SIZE

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise EvaluationError(f"a value larger than {MAX_SIZE}")

    def pay(self) -> None:
        """Count what was looked at as work of the step; raises ExhaustedError."""
        spend_parts(MAX_SIZE - max(self.left, 0))


def kind_of(value: object) -> str:
    """Name the kind of a value: null, boolean, number, string, list, object, or a foreign type's name."""
    if value is None:
        return "null"
    for types, kind in _KINDS:
        if isinstance(value, types):
            return kind
    return type(value).__name__


_KINDS: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (bool, "boolean"),
    ((int, float), "number"),
    (str, "string"),
    ((list, tuple), "list"),
    (Mapping, "object"),
)
_TYPEOF: Final = {"null": "undefined", "boolean": "boolean", "number": "number", "string": "string"}


_SIMPLE: Final = frozenset({type(None), bool, int, float, str})


def typeof(value: object) -> str:
    """Name the type as ECMAScript does; null is undefined."""
    return _TYPEOF.get(kind_of(value), "object")


def truthy(value: object) -> bool:
    """Tell whether a value counts as true."""
    if type(value) in _SIMPLE:
        return bool(value)
    if isinstance(value, (list, tuple, Mapping)):
        return True
    return bool(value)


def as_number(value: object, role: str = "arithmetic") -> float:
    """Return a finite number in its one form; raise EvaluationError for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise EvaluationError(f"{role} needs a number, not {kind_of(value)}")
    if isinstance(value, int) and -MAX_INTEGER <= value <= MAX_INTEGER:
        return value
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise EvaluationError("a number that is not finite or too large")
    if number.is_integer() and abs(number) <= MAX_INTEGER:
        return int(number)
    return number


def as_text(value: object) -> str:
    """Write a simple value as ECMAScript does when it joins it to a string."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, (int, float)):
        return _number_text(as_number(value))
    raise EvaluationError(f"cannot join {kind_of(value)} to a string")


def _number_text(number: float) -> str:
    if isinstance(number, int):
        return str(number)
    decimal = Decimal(repr(abs(number))).normalize()
    digits = "".join(map(str, decimal.as_tuple().digits))
    return ("-" if number < 0 else "") + _place_point(digits, decimal.adjusted() + 1)


def _place_point(digits: str, power: int) -> str:
    """Write 0.DIGITS times ten to `power`."""
    if len(digits) <= power <= _PLAIN_DIGITS:
        return digits + "0" * (power - len(digits))
    if 0 < power <= _PLAIN_DIGITS:
        return f"{digits[:power]}.{digits[power:]}"
    if _PLAIN_ZEROS + 1 < power <= 0:
        return f"0.{'0' * -power}{digits}"
    point = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{point}e{power - 1:+d}"


def sized(text: str) -> str:
    """Return `text` unless it is too long."""
    if len(text) > MAX_SIZE:
        raise EvaluationError(f"a string longer than {MAX_SIZE} characters")
    if len(text) > _SHOWN:
        spend_text(len(text))
    return text


def measure(value: object) -> object:
    """Return `value` unless, written out in full, it is too large or nested too deeply."""
    work = _Work()
    try:
        _measure(value, work)
    finally:
        work.pay()
    return value


def _measure(value: object, work: _Work) -> None:
    pending = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise EvaluationError(f"a value nested deeper than {MAX_DEPTH}")
        work.spend(1)
        if isinstance(item, str):
            work.spend(len(item))
        elif isinstance(item, Mapping):
            work.spend(len(item) + sum(len(str(key)) for key in item))
            pending.extend((child, depth + 1) for child in item.values())
        elif isinstance(item, (list, tuple)):
            work.spend(len(item))
            pending.extend((child, depth + 1) for child in item)


def equal(left: object, right: object) -> bool:
    """Compare by value, lists and objects all the way down."""
    if type(left) in _SIMPLE and type(right) in _SIMPLE:
        return _equal(left, right, _Work())
    work = _Work()
    try:
        return _equal(left, right, work)
    finally:
        work.pay()


def _equal(left: object, right: object, work: _Work) -> bool:
    pending = [(left, right)]
    while pending:
        one, other = pending.pop()
        work.spend(1)
        if one is other:
            continue
        if kind_of(one) != kind_of(other):
            return False
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            work.spend(len(one))
            if one.keys() != other.keys():
                return False
            pending.extend((one[key], other[key]) for key in one)
        elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
            work.spend(len(one))
            if len(one) != len(other):
                return False
            pending.extend(zip(one, other, strict=True))
        elif one != other:
            return False
    return True


def contains(item: object, container: object) -> bool:
    """Tell whether an object has a key, a list an equal item, a string a part."""
    if isinstance(container, Mapping):
        return as_text(item) in container
    if isinstance(container, (list, tuple)):
        work = _Work()
        try:
            return any(_equal(item, other, work) for other in container)
        finally:
            work.pay()
    if isinstance(container, str) and isinstance(item, str):
        spend_text(len(container))
        return item in container
    raise EvaluationError(f"cannot look for {kind_of(item)} in {kind_of(container)}")


def member(value: object, name: str) -> object:
    """Return the value of a key of an object, or the length of a string or list."""
    if isinstance(value, Mapping):
        if name in value:
            return value[name]
        raise EvaluationError(f"there is no {name!r} in the object")
    if name == "length" and isinstance(value, (str, list, tuple)):
        return len(value)
    raise EvaluationError(f"{kind_of(value)} has no {name!r}")


def item_at(value: object, key: object) -> object:
    """Return what stands at a key of an object or a position of a list or string."""
    if isinstance(value, (str, list, tuple)) and not isinstance(key, str):
        position = list_position(key)
        if position >= len(value):
            raise EvaluationError(f"position {position} is outside a {kind_of(value)} of {len(value)}")
        return value[position]
    return member(value, as_text(key))


def list_position(key: object) -> int:
    """Return a key as a position in a list."""
    position = as_number(key, "a position")
    if not isinstance(position, int) or position < 0:
        raise EvaluationError(f"{as_text(position)} is not a position")
    return position


def add(left: object, right: object) -> object:
    """Add numbers, or join a string with a simple value."""
    if isinstance(left, str) or isinstance(right, str):
        return sized(as_text(left) + as_text(right))
    return as_number(as_number(left) + as_number(right))


def _divide(left: float, right: float) -> float:
    if right == 0:
        raise EvaluationError("division by zero")
    return left / right


def _remainder(left: float, right: float) -> float:
    if right == 0:
        raise EvaluationError("division by zero")
    return math.fmod(left, right)


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except (OverflowError, ValueError) as error:
        raise EvaluationError("a power that is not a finite number") from error


def _arithmetic(operation: Callable[[float, float], float]) -> Callable[[object, object], object]:
    def apply(left: object, right: object) -> object:
        return as_number(operation(as_number(left), as_number(right)))

    return apply


def _bitwise(operation: Callable[[int, int], int]) -> Callable[[object, object], object]:
    def operand(value: object) -> int:
        number = int(value) if isinstance(value, bool) else as_number(value, "| and &")
        if not isinstance(number, int) or not -(2**31) <= number < 2**31:
            raise EvaluationError("| and & need integers of 32 bits")
        return number

    def apply(left: object, right: object) -> object:
        return operation(operand(left), operand(right))

    return apply


def _ordering(
    numbers: Callable[[float, float], bool], strings: Callable[[str, str], bool]
) -> Callable[[object, object], object]:
    def apply(left: object, right: object) -> object:
        if isinstance(left, str) and isinstance(right, str):
            return strings(left, right)
        return numbers(as_number(left, "an order"), as_number(right, "an order"))

    return apply


def _unequal(left: object, right: object) -> object:
    return not equal(left, right)


BINARY: Final[Mapping[str, Callable[[object, object], object]]] = {
    "+": add,
    "-": _arithmetic(lambda left, right: left - right),
    "*": _arithmetic(lambda left, right: left * right),
    "/": _arithmetic(_divide),
    "%": _arithmetic(_remainder),
    "|": _bitwise(lambda left, right: left | right),
    "&": _bitwise(lambda left, right: left & right),
    "==": equal,
    "===": equal,
    "!=": _unequal,
    "!==": _unequal,
    "<": _ordering(lambda left, right: left < right, lambda left, right: left < right),
    "<=": _ordering(lambda left, right: left <= right, lambda left, right: left <= right),
    ">": _ordering(lambda left, right: left > right, lambda left, right: left > right),
    ">=": _ordering(lambda left, right: left >= right, lambda left, right: left >= right),
    "in": contains,
    "not in": lambda item, container: not contains(item, container),
    "instanceof": lambda value, _array: isinstance(value, (list, tuple)),
}

UNARY: Final[Mapping[str, Callable[[object], object]]] = {
    "!": lambda value: not truthy(value),
    "-": lambda value: as_number(-as_number(value)),
    "+": as_number,
    "typeof": typeof,
}


def _length(value: object) -> object:
    if isinstance(value, Mapping):
        return len(value)
    return member(value, "length")


def _written(value: object) -> object:
    measure(value)
    try:
        return sized(
            json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
        )
    except (TypeError, ValueError) as error:
        raise EvaluationError("a value that JSON cannot hold") from error


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(kind_of(value))


def _numeric(operation: Callable[..., float]) -> Callable[..., object]:
    def apply(*values: object) -> object:
        return as_number(operation(*(as_number(value) for value in values)))

    return apply


def _extreme(choose: Callable[[Sequence[float]], float]) -> Callable[..., object]:
    return _numeric(lambda *numbers: choose(numbers))


FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "len": _length,
    "JSON.stringify": _written,
    "Math.abs": _numeric(abs),
    "Math.ceil": _numeric(math.ceil),
    "Math.floor": _numeric(math.floor),
    "Math.max": _extreme(max),
    "Math.min": _extreme(min),
    "Math.pow": _numeric(_power),
}


def concat(value: object, *others: object) -> object:
    """Return a new list: the items of `value`, then each other value, lists by their items."""
    if not isinstance(value, (list, tuple)):
        raise EvaluationError(f"{kind_of(value)} has no 'concat'")
    joined = list(value)
    for other in others:
        joined.extend(other if isinstance(other, (list, tuple)) else [other])
        if len(joined) > MAX_SIZE:
            raise EvaluationError(f"a list longer than {MAX_SIZE}")
    spend_parts(len(joined))
    return joined


def inline_value(text: str) -> object:
    """Return what the text inside an element means: JSON when it is JSON, else a space-normalised string."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return " ".join(text.split())
    return measure(value)


def _refuse_constant(name: str) -> object:
    raise ValueError(name)
