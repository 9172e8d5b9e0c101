"""Expressions under random texts and data: a value, or one of two errors, and the value Python computes."""

from __future__ import annotations

import copy
import json
import math
import operator
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.statechart.expressions.expressions import (
    EvaluationError,
    Expression,
    ExpressionError,
    PlainScope,
    location_or_failing,
    parse,
    parse_or_failing,
)

pytestmark = pytest.mark.mission("ENG-18")

# fmt: off
WORDS = [
    "n", "s", "items", "order", "nothing", "_event", "unknown", "true", "null", "In", "len", "Math.pow",
    "JSON.stringify", ".concat", ".length", ".k", "typeof", "not", "in", "and", "or", "instanceof",
    "Array", "&&", "||", "!", "==", "===", "!=", "<", ">=", "+", "-", "*", "/", "%", "|", "&", "?", ":",
    "(", ")", "[", "]", "{", "}", ",", ".", "0", "1", "2.5", "1e300", "'a'", '"b"', "return", "++", "=",
    "9007199254740993",
]
# fmt: on
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["k", "a", "length"]), inner),
    max_leaves=10,
)
NAMES = ["n", "s", "items", "order", "nothing", "_event"]


def is_json(value: object) -> bool:
    """Whether JSON can hold a value."""
    return bool(json.loads(json.dumps(value, allow_nan=False)) == value)


def check(text: str, values: dict[str, object]) -> None:
    """Read and evaluate a text: a JSON value or one of the two errors, and the data untouched."""
    before = copy.deepcopy(values)
    scope = PlainScope(values, frozenset({"a"}))
    with suppress(ExpressionError, EvaluationError):
        assert is_json(parse(text).evaluate(scope))
    with suppress(EvaluationError):
        assert is_json(location_or_failing(text).assign(values, scope, 1))
    assert values == before


@given(st.text())
def test_any_text_is_an_expression_or_an_error(text: str) -> None:
    """Whatever the text, reading it gives an Expression or an ExpressionError."""
    read = parse_or_failing(text)
    assert read.text == text
    assert read.error is None or 0 <= read.error.position <= len(text)
    assert isinstance(read, Expression)


@given(
    st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join),
    st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, JSON)),
)
def test_any_words_on_any_data_give_json_or_an_error(text: str, values: dict[str, object]) -> None:
    """Whatever the words and the data, the outcome is a JSON value or one of the two errors."""
    check(text, values)


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Larger legal texts from smaller ones."""
    signs = [
        "+",
        "-",
        "*",
        "/",
        "%",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "&&",
        "||",
        "|",
        "&",
        "in",
        "not in",
        "or",
    ]
    binary = st.sampled_from(signs)
    return st.one_of(
        st.tuples(inner, binary, inner).map(" ".join),
        st.tuples(st.sampled_from(["!", "- ", "not ", "typeof "]), inner).map("".join),
        st.tuples(inner, inner, inner).map(lambda three: "({} ? {} : {})".format(*three)),
        st.lists(inner, max_size=3).map(lambda many: f"[{', '.join(many)}]"),
        st.tuples(inner, inner).map(lambda two: "{{k: {}, a: {}}}".format(*two)),
        st.tuples(inner, inner).map(lambda two: "({})[{}]".format(*two)),
        inner.map("({}).k".format),
        inner.map("({}).length".format),
        inner.map("JSON.stringify({})".format),
        st.tuples(inner, inner).map(lambda two: "({}).concat({})".format(*two)),
        st.tuples(inner, inner).map(lambda two: "Math.pow({}, {})".format(*two)),
    )


LEGAL = st.recursive(
    st.sampled_from([*NAMES, "0", "2", "0.5", "'k'", "true", "null", "In('a')"]), grown, max_leaves=12
)


@given(LEGAL, st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, JSON)))
def test_any_legal_expression_on_any_data_gives_json_or_an_error(
    text: str, values: dict[str, object]
) -> None:
    """Whatever a legal expression meets in the data, the outcome is a JSON value or an EvaluationError."""
    parse(text)
    check(text, values)


# --- An independent evaluator: trees are computed by Python directly, and written out as text ---

Outcome = float | bool | None
Tree = tuple[str, Outcome]
PYTHON: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": math.fmod,
}
ORDERS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "===": operator.eq,
    "!=": operator.ne,
}


def computed(left: Tree, sign: str, right: Tree) -> Tree:
    """A tree of two number trees; its outcome is None when Python cannot compute it."""
    text = f"({left[0]} {sign} {right[0]})"
    if left[1] is None or right[1] is None:
        return text, None
    if sign in ORDERS:
        return text, ORDERS[sign](left[1], right[1])
    try:
        return text, PYTHON[sign](left[1], right[1])
    except (ZeroDivisionError, ValueError):
        return text, None


NUMBER_LEAVES = st.integers(0, 1000).map(lambda number: (str(number), float(number))) | st.floats(
    0.25, 100
).map(lambda number: (repr(number), number))


def larger(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    """Larger number trees from smaller ones."""
    return st.builds(computed, inner, st.sampled_from(sorted(PYTHON)), inner) | inner.map(
        lambda tree: (f"-({tree[0]})", None if tree[1] is None else -tree[1])
    )


NUMBERS: st.SearchStrategy[Tree] = st.recursive(NUMBER_LEAVES, larger, max_leaves=8)


def joined(sign: str, left: Tree, right: Tree) -> Tree:
    """A boolean tree of two; what is not evaluated cannot fail."""
    word = {"and": "&&", "or": "||"}.get(sign, sign)
    stops = word == "||"
    outcome = left[1] if left[1] is None or left[1] is stops else right[1]
    return f"({left[0]} {sign} {right[0]})", outcome


BOOLEANS: st.SearchStrategy[Tree] = st.recursive(
    st.builds(computed, NUMBERS, st.sampled_from(sorted(ORDERS)), NUMBERS),
    lambda inner: (
        st.builds(joined, st.sampled_from(["&&", "||", "and", "or"]), inner, inner)
        | inner.map(lambda tree: (f"!{tree[0]}", None if tree[1] is None else not tree[1]))
    ),
    max_leaves=6,
)


@given(NUMBERS | BOOLEANS)
def test_arithmetic_and_logic_agree_with_an_independent_evaluator(tree: Tree) -> None:
    """Random trees of arithmetic, comparison and logic have the value that Python computes for them."""
    text, expected = tree
    if expected is None:
        with pytest.raises(EvaluationError):
            parse(text).evaluate(PlainScope({}))
    else:
        found = parse(text).evaluate(PlainScope({}))
        assert isinstance(found, bool) is isinstance(expected, bool)
        assert found == expected


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.data())
def test_precedence_agrees_with_python(numbers: list[int], data: st.DataObject) -> None:
    """Without parentheses, operators bind as they do in Python."""
    signs = [data.draw(st.sampled_from(["+", "-", "*"])) for _ in numbers[1:]]
    text = str(numbers[0]) + "".join(
        f" {sign} {number}" for sign, number in zip(signs, numbers[1:], strict=True)
    )
    terms = [[1, numbers[0]]]
    for sign, number in zip(signs, numbers[1:], strict=True):
        if sign == "*":
            terms[-1].append(number)
        else:
            terms.append([1 if sign == "+" else -1, number])
    assert parse(text).evaluate(PlainScope({})) == sum(math.prod(term) for term in terms)
