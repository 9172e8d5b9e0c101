"""The expressions of charts that come from outside: what they mean, and that nothing breaks them."""

from __future__ import annotations

import copy
import json
import math
import pickle
from types import MappingProxyType

import pytest

from headway.errors import HeadwayError
from headway.statechart.expressions.expressions import (
    MAX_DEPTH,
    MAX_LENGTH,
    MAX_NESTING,
    MAX_SIZE,
    EvaluationError,
    ExpressionError,
    PlainScope,
    free_names,
    inline_value,
    location_or_failing,
    parse,
    parse_location,
    parse_or_failing,
    truthy,
)

pytestmark = pytest.mark.mission("ENG-18")

SCOPE = PlainScope(
    {
        "n": 3,
        "s": "abc",
        "empty": [],
        "nothing": None,
        "items": [1, 2, {"k": "v"}],
        "order": {"total": 12.5, "lines": [{"sku": "a"}], "length": 7},
        "_event": {"name": "paid", "type": "external", "sendid": None, "data": {"amount": 5}},
    },
    frozenset({"review"}),
)


def value_of(text: str) -> object:
    """The value of a text in the scope of the examples."""
    return parse(text).evaluate(SCOPE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", 12),
        ("1.0", 1),
        (".5", 0.5),
        ("1e3", 1000),
        ("2.5E-1", 0.25),
        ("0x1F", 31),
        ("9007199254740993", 2**53),
        (r"'it\'s'", "it's"),
        (r'"a\n\t\\\x41é\u{1F600}\ud83d\ude00"', "a\n\t\\Aé😀😀"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("undefined", None),
        ("None", None),
        ("[1, 'a', [true],]", [1, "a", [True]]),
        ("{a: 1, 'b c': {in: 2},}", {"a": 1, "b c": {"in": 2}}),
    ],
)
def test_literals(text: str, expected: object) -> None:
    """Numbers, strings, constants, lists and objects mean what they mean in ECMAScript and Python."""
    found = value_of(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3 - 4", 3),
        ("(1 + 2) * 3", 9),
        ("2 - 3 - 4", -5),
        ("6 / 2", 3),
        ("7 / 2", 3.5),
        ("0.5 + 0.5", 1),
        ("-7 % 3", -1),
        ("7 % -3", 1),
        ("5.5 % 2", 1.5),
        ("- -n", 3),
        ("+n", 3),
        ("9007199254740992 + 2", 9007199254740994.0),
        ("6 & 3 | 8", 10),
        ("Math.pow(n, 3)", 27),
        ("Math.max(1, n, 2) - Math.min(1, n)", 2),
        ("Math.floor(-2.5) + Math.ceil(0.5) + Math.abs(-1)", -1),
    ],
)
def test_arithmetic(text: str, expected: object) -> None:
    """There is one kind of number: a whole result is an int, also of a division."""
    found = value_of(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'x:' + 1", "x:1"),
        ("'x:' + 1.0", "x:1"),
        ("1 + 2 + 'x'", "3x"),
        ("'' + 0.1", "0.1"),
        ("'' + -12.5", "-12.5"),
        ("'' + 1e21", "1e+21"),
        ("'' + 123456789012345680000", "123456789012345680000"),
        ("'' + 1.5e300", "1.5e+300"),
        ("'' + 0.000001", "0.000001"),
        ("'' + 1.5e-7", "1.5e-7"),
        ("'a' + true + null", "atruenull"),
    ],
)
def test_strings_join_with_simple_values_as_in_ecmascript(text: str, expected: str) -> None:
    """`+` with a string writes a number, a boolean or null the way ECMAScript does."""
    assert value_of(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "n == 3 && n === 3.0",
        "n != 4 and n !== '3'",
        "!(1 == '1') && !(1 == true) && !(0 == null)",
        "null == undefined && null === undefined && nothing == null",
        "items == [1, 2, {k: 'v'}]",
        "items != [1, 2, {k: 'w'}] && [1] != [1, 2] && {a: 1} != {b: 1}",
        "1 < 2 && 2 <= 2 && 'b' > 'a' && 'b' >= 'b'",
        "2 in items && {k: 'v'} in items && 'k' in items[2] && 'bc' in s",
        "9 not in items && !('z' in order)",
        "not n == 4",
        "1 + 1 == 2 && 2 > 1 == true",
        "n == 4 | n != 4",
        "items instanceof Array && !(s instanceof Array)",
    ],
)
def test_true_comparisons(text: str) -> None:
    """Equality is by value and converts nothing; order is for numbers or for strings."""
    assert truthy(value_of(text))


@pytest.mark.parametrize("text", ["empty", "{}", "'a'", "-1", "true"])
def test_true_values(text: str) -> None:
    """Truth is ECMAScript's: an empty list and an empty object are true."""
    assert truthy(value_of(text)) is True
    assert value_of(f"!{text}") is False


@pytest.mark.parametrize("text", ["null", "0", "0.0", "''", "false", "nothing"])
def test_false_values(text: str) -> None:
    """Only null, false, zero and the empty string are false."""
    assert truthy(value_of(text)) is False
    assert value_of(f"not {text}") is True


def test_boolean_operators_return_the_operand_that_decides_and_leave_the_rest() -> None:
    """`&&` and `||` stop at the operand that decides, and give its value."""
    assert value_of("0 || 'a' || unknown") == "a"
    assert value_of("1 && 0 && unknown") == 0
    assert value_of("1 and 2") == 2
    assert value_of("0 or null") is None


def test_conditional_evaluates_one_branch() -> None:
    """`?:` evaluates only the branch it takes, and nests to the right."""
    assert value_of("n > 2 ? 'big' : unknown") == "big"
    assert value_of("n == 1 ? 'a' : n == 3 ? 'b' : 'c'") == "b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("_event.name", "paid"),
        ("_event.data.amount", 5),
        ("_event['data']['amount']", 5),
        ("order.lines[0].sku", "a"),
        ("items[n - 1].k", "v"),
        ("items.length", 3),
        ("items['length']", 3),
        ("s.length + s[1]", "3b"),
        ("order.length", 7),
        ("len(items) + len(s) + len(order)", 9),
        ("[].concat(items, 4, [5, [6]])", [1, 2, {"k": "v"}, 4, 5, [6]]),
        ("empty.concat(1).length", 1),
        ("JSON.stringify({a: [1, 'é', null]})", '{"a":[1,"é",null]}'),
        ("In('review') && !In('paid')", True),
    ],
)
def test_access_and_functions(text: str, expected: object) -> None:
    """Keys, positions, lengths and the few functions reach into the data and the configuration."""
    assert value_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("typeof unknown", "undefined"),
        ("typeof nothing", "undefined"),
        ("typeof _event.sendid", "undefined"),
        ("typeof _event.missing", "undefined"),
        ("typeof _event['missing']", "undefined"),
        ("typeof n", "number"),
        ("typeof s === 'string'", True),
        ("typeof (n > 1)", "boolean"),
        ("typeof items", "object"),
        ("typeof items[0]", "number"),
        ("typeof order", "object"),
    ],
)
def test_typeof_asks_without_failing(text: str, expected: object) -> None:
    """`typeof` gives undefined for a name or key that is not there, and null counts as undefined."""
    assert value_of(text) == expected


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("return", 0),
        ("n = 4", 2),
        ("n++", 1),
        ("++n == 2", 0),
        ("n += 1", 3),
        ("{p1: 'v1'", 9),
        ("(1", 2),
        ("[1,,2]", 3),
        ("1 2", 2),
        ("'open", 0),
        (r"'\q'", 1),
        (r"'\ud800'", 0),
        ("010", 0),
        ("1abc", 0),
        ("1e999", 0),
        ("n.1", 1),
        ("n.", 2),
        ("f(1)", 1),
        ("n.push(1)", 6),
        ("[].concat(1)(2)", 12),
        ("In()", 2),
        ("Math.pow(2)", 8),
        ("new Date()", 0),
        ("function () { return 1 }", 0),
        ("/a+/", 0),
        ("a ? b", 5),
        ("a; b", 1),
        ("x instanceof Object", 13),
        ("\ud800", 0),
    ],
)
def test_what_is_not_in_the_language(text: str, position: int) -> None:
    """A text outside the language is refused when it is read, with the place; nothing is guessed."""
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.position == position
    assert caught.value.text == text
    assert isinstance(caught.value, HeadwayError)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("unknown", "unknown name unknown"),
        ("order.missing", "no 'missing'"),
        ("nothing.k", "null has no 'k'"),
        ("n.__class__", "number has no '__class__'"),
        ("s.upper", "string has no 'upper'"),
        ("items.append", "list has no 'append'"),
        ("items[3]", "position 3 is outside"),
        ("items[-1]", "-1 is not a position"),
        ("items[0.5]", "0.5 is not a position"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("true + 1", "needs a number, not boolean"),
        ("1 + null", "needs a number, not null"),
        ("-s", "needs a number, not string"),
        ("'a' + items", "cannot join list"),
        ("1 < 'a'", "needs a number, not string"),
        ("1 < 2 < 3", "needs a number, not boolean"),
        ("1 in 2", "cannot look for number in number"),
        ("1e300 * 1e300", "not finite"),
        ("Math.pow(10, 400)", "not a finite number"),
        ("Math.pow(-1, 0.5)", "not a finite number"),
        ("0.5 | 1", "integers of 32 bits"),
        ("In(1)", "name of a state"),
        ("order.concat(1)", "object has no 'concat'"),
    ],
)
def test_what_has_no_value(text: str, reason: str) -> None:
    """What goes wrong in an evaluation is an EvaluationError that says what, and in which expression."""
    with pytest.raises(EvaluationError, match=reason) as caught:
        value_of(text)
    assert caught.value.text == text


def test_no_python_attribute_is_reachable() -> None:
    """Keys are those of the data; the attributes and methods of Python objects do not exist."""
    for name in ("__class__", "__init__", "keys", "get", "items", "real", "format"):
        for value in ("order", "items", "s", "n", "true", "null"):
            with pytest.raises(EvaluationError):
                value_of(f"{value}.{name}")


def test_expressions_are_equal_by_text() -> None:
    """Charts can be compared, copied and pickled: an expression is its text."""
    assert parse("n + 1") == parse("n + 1")
    assert parse("n + 1") != parse("n+1")
    assert hash(parse("n")) == hash(parse("n"))
    again = pickle.loads(pickle.dumps(parse("n + 1")))  # noqa: S301 - our own bytes
    assert again == parse("n + 1")
    assert copy.deepcopy(again).evaluate(SCOPE) == 4
    assert pickle.loads(pickle.dumps(parse_location("a.b"))) == parse_location("a.b")  # noqa: S301 - our own


def test_free_names() -> None:
    """The names an expression looks up are known without evaluating it."""
    found = free_names(parse("a.b[c] + (typeof d ? [e, {k: f}] : In(g)) * -h && [].concat(i) || Math.abs(j)"))
    assert found == frozenset("acdefghij")


def test_failing_expression_keeps_its_text_and_fails_when_evaluated() -> None:
    """A text outside the language can be kept: it fails where it is evaluated, as SCXML asks."""
    broken = parse_or_failing("return")
    assert broken.text == "return"
    assert isinstance(broken.error, ExpressionError)
    assert free_names(broken) == frozenset()
    with pytest.raises(EvaluationError, match="not part of the language"):
        broken.evaluate(SCOPE)
    assert parse_or_failing("1").error is None


DATA = {"a": 1, "b": {"c": [1, {"d": 2}]}, "i": 1}


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("a", {**DATA, "a": "new"}),
        (" a ", {**DATA, "a": "new"}),
        ("b.c", {**DATA, "b": {"c": "new"}}),
        ("b['x']", {**DATA, "b": {"c": [1, {"d": 2}], "x": "new"}}),
        ("b.c[0]", {**DATA, "b": {"c": ["new", {"d": 2}]}}),
        ("b.c[i].d", {**DATA, "b": {"c": [1, {"d": "new"}]}}),
        ("b.c[b.c.length]", {**DATA, "b": {"c": [1, {"d": 2}, "new"]}}),
    ],
)
def test_assignment_copies_what_it_changes(location: str, expected: object) -> None:
    """An assignment returns new data and leaves the old, all the way down, as it was."""
    before = copy.deepcopy(DATA)
    frozen = MappingProxyType(DATA)
    assert parse_location(location).assign(frozen, PlainScope(DATA), "new") == expected
    assert before == DATA


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("z", "z is not declared"),
        ("z.y", "z is not declared"),
        ("a.x", "cannot assign inside number"),
        ("b.z.y", "no 'z'"),
        ("b.c[9]", "position 9 is outside"),
        ("b.c.length", "needs a number"),
        ("b[z]", "unknown name z"),
        ("_event", "belongs to the system"),
        ("_event.data", "belongs to the system"),
        ("'continue'", "not a place"),
        ("a + 1", "not a place"),
        ("a.concat(1)", "not a place"),
        ("return", "not part of the language"),
    ],
)
def test_assignment_that_fails(location: str, reason: str) -> None:
    """Undeclared names, system names, keys that lead nowhere and texts that are no place are errors."""
    with pytest.raises(EvaluationError, match=reason):
        location_or_failing(location).assign(DATA, PlainScope(DATA), 1)


def test_location_is_refused_when_it_is_read() -> None:
    """A caller who wants to know early is told early."""
    with pytest.raises(ExpressionError, match="not a place"):
        parse_location("1 + 1")


def test_foreach_may_declare_a_plain_name() -> None:
    """The variables of a foreach come to be when they are first assigned; parts of nothing do not."""
    assert parse_location("item").assign({}, SCOPE, 1, declare=True) == {"item": 1}
    with pytest.raises(EvaluationError, match="not declared"):
        parse_location("item.x").assign({}, SCOPE, 1, declare=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" [1, 2] ", [1, 2]),
        ('{"a": null}', {"a": None}),
        ("21", 21),
        ("\n this  is \n a string ", "this is a string"),
        ("NaN", "NaN"),
        ("", ""),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_inline_content_is_json_or_text(text: str, expected: object) -> None:
    """What stands inside a data or content element is JSON where it can be, else normalised text."""
    assert inline_value(text) == expected


# --- Bounds ---


def test_long_chains_are_fine_and_long_texts_refused() -> None:
    """Length costs no stack: thousands of operators, keys or items in a row evaluate; then a limit holds."""
    many = 2_000
    assert value_of("+".join(["1"] * many)) == many
    assert value_of("&&".join(["1"] * many)) == 1
    assert value_of("[" + "1," * many + "]") == [1] * many
    assert parse("a" + ".b" * many).names == {"a"}
    with pytest.raises(ExpressionError, match="longer than"):
        parse("1" + " " * MAX_LENGTH)


NESTINGS = [
    ("(", ")"),
    ("[", "]"),
    ("{a:", "}"),
    ("-(", ")"),
    ("!", ""),
    ("not ", ""),
    ("typeof ", ""),
    ("n?n:", ""),
    ("a[", "]"),
    ("len(", ")"),
    ("1+(", ")"),
    ("1||1&&1==1<1+1*-(", ")"),
]


@pytest.mark.parametrize(("opening", "closing"), NESTINGS)
def test_deep_nesting_is_refused(opening: str, closing: str) -> None:
    """Nesting is bounded, whatever nests: the interpreter's stack is never at stake."""
    few, many = 5, MAX_LENGTH // (len(opening) + len(closing)) - 1
    parse(opening * few + "1" + closing * few)
    with pytest.raises(ExpressionError, match=f"nested deeper than {MAX_NESTING}"):
        parse(opening * many + "1" + closing * many)
    with pytest.raises(ExpressionError):
        parse(opening * many)


def grow(value: object, text: str, times: int) -> object:
    """The value after a text was evaluated on it, on the result of that, and so on."""
    expression = parse(text)
    for _ in range(times):
        value = expression.evaluate(PlainScope({"v": value}))
    return value


@pytest.mark.parametrize(
    ("start", "text"), [("x", "v + v"), ([1], "v.concat(v)"), ([1], "[v, v]"), ({}, "{a: v, b: v}")]
)
def test_strings_and_lists_cannot_grow_without_bound(start: object, text: str) -> None:
    """Doubling a string or a list ends in an error, not in memory."""
    assert len(json.dumps(grow(start, text, 10))) < MAX_SIZE
    with pytest.raises(EvaluationError, match=r"longer|larger"):
        grow(start, text, 20)


def test_values_cannot_nest_without_bound() -> None:
    """Wrapping a value in a list again and again ends in an error that says so."""
    grow(1, "[v]", MAX_DEPTH)
    with pytest.raises(EvaluationError, match=f"nested deeper than {MAX_DEPTH}"):
        grow(1, "[v]", MAX_DEPTH + 1)


def test_assignment_cannot_grow_a_value_without_bound() -> None:
    """Putting a value into itself again and again ends in an error as well."""

    def doubled(times: int) -> dict[str, object]:
        data: dict[str, object] = {"v": {}}
        for _ in range(times):
            for key in ("v.a", "v.b"):
                data = parse_location(key).assign(data, PlainScope(data), data["v"])
        return data

    assert doubled(3)
    with pytest.raises(EvaluationError, match=r"larger|deeper"):
        doubled(200)


def test_comparing_large_values_is_bounded() -> None:
    """A comparison or search that would take too long is an error; one that ends early is not."""
    shared: object = 1
    other: object = 1
    for _ in range(60):
        shared, other = [shared, shared], [other, other]
    scope = PlainScope({"a": shared, "b": other, "many": [shared] * 10})
    assert parse("a == a").evaluate(scope) is True
    for text in ("a == b", "b in many", "JSON.stringify(a)"):
        with pytest.raises(EvaluationError, match="larger"):
            parse(text).evaluate(scope)


@pytest.mark.parametrize(
    "huge", [10**400, -(10**5000), math.inf, math.nan], ids=["big", "bigger", "infinite", "nan"]
)
def test_numbers_that_are_no_numbers_here(huge: float) -> None:
    """A number from outside that is not finite or too large is an error as soon as it is used."""
    scope = PlainScope({"x": huge})
    for text in ("x + 1", "x < 1", "-x", "'' + x", "x * 0", "items[x]", "Math.abs(x)"):
        with pytest.raises(EvaluationError):
            parse(text).evaluate(scope)
