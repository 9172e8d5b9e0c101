"""Charts as JSON documents: they load back equal, follow the published schema, and can do no harm."""

from __future__ import annotations

import contextlib
import copy
import json
from datetime import UTC, datetime
from importlib import resources
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway import Statechart, start
from headway.errors import DefinitionError, DocumentError, InputError, UnboundError
from headway.statechart import export, model
from headway.statechart.chart import Chart
from headway.statechart.export import document_schema, from_document, to_document
from tests.statechart.sample_charts import (
    CHARTS,
    Claim,
    Expense,
    Verdict,
    charts,
    has_receipt,
    models,
    parts,
    patience,
    summary,
)

pytestmark = pytest.mark.mission("ENG-18")

SCHEMA = jsonschema.Draft202012Validator(document_schema())
NAMED = [has_receipt, patience, summary, parts, Expense.chart.functions["positive"], Verdict, Claim]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def expense(**changes: object) -> dict[str, Any]:
    """The document of the expense chart, changed."""
    return to_document(Expense) | changes


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS.keys())
def test_a_chart_loads_back_equal(chart: Chart) -> None:
    """What is written as JSON text and read again is the same chart, and can run when its names are bound."""
    names = {**chart.functions, **{name: kind.kind for name, kind in chart.types.items()}}
    loaded = Statechart.from_document(json.dumps(to_document(chart)), names)
    assert loaded == chart
    assert loaded.unbound == ()
    assert loaded.functions == chart.functions


@settings(max_examples=100, deadline=None)
@given(models())
def test_a_random_chart_loads_back_equal(whole: model.Model) -> None:
    """Equality holds for any tree of states and any text."""
    document = to_document(Chart(whole))
    assert from_document(document).model == whole
    assert from_document(json.dumps(document).encode()).model == whole


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS.keys())
def test_documents_follow_the_schema(chart: Chart) -> None:
    """Whoever validates by the published schema accepts what is exported."""
    SCHEMA.validate(to_document(chart))


@settings(max_examples=50, deadline=None)
@given(charts)
def test_random_documents_follow_the_schema(chart: Chart) -> None:
    """The schema covers every shape of a chart."""
    SCHEMA.validate(to_document(chart))


def test_the_published_schema_is_current() -> None:
    """The file in the package is what the model says; when the model changes, write `document_schema()`."""
    published = (
        resources.files("headway.statechart").joinpath("chart.schema.json").read_text(encoding="utf-8")
    )
    assert json.loads(published) == document_schema()
    jsonschema.Draft202012Validator.check_schema(document_schema())


@pytest.mark.parametrize(
    "change",
    [{"headway": 2}, {"states": 1}, {"unknown": 1}, {"transitions": [{"name": "a"}]}, {"$schema": "other"}],
)
def test_the_schema_refuses_what_the_reader_refuses(change: dict[str, object]) -> None:
    """The schema is as strict as the reader about shapes."""
    assert not SCHEMA.is_valid(expense(**change))
    with pytest.raises(DocumentError):
        from_document(expense(**change))


def test_functions_and_types_are_bound_by_name() -> None:
    """An iterable binds by the names things have; what the chart does not name is left alone."""
    chart = from_document(expense(), [*NAMED, len])
    assert chart.unbound == ()
    assert chart.functions["has_receipt"] is has_receipt
    assert "len" not in chart.functions
    assert chart.types["Verdict"].kind is Verdict


def test_what_is_missing_stays_unbound() -> None:
    """A document without its functions can be drawn and checked; running it names what is missing."""
    chart = from_document(expense(), [has_receipt])
    assert chart.unbound == ("Claim", "Verdict", "parts", "patience", "summary")
    with pytest.raises(UnboundError, match="Claim, Verdict, parts, patience, summary"):
        start(chart, now=NOW)


@pytest.mark.parametrize(
    "functions",
    [[3], {"has_receipt": 3}, [object()], [has_receipt, lambda: 0, lambda: 1], [type("Bad", (), {})]],
    ids=["number", "mapped number", "nameless", "same name", "no data type"],
)
def test_a_wrong_binding_is_said(functions: Any) -> None:
    """What is neither function nor type, or not the only one of its name, is an InputError."""
    with pytest.raises(InputError):
        from_document(expense(), functions)


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("states", 2, "run", "timeout"), "soon", "$.states[2].run.timeout"),
        (("states", 2, "run", "retry", 0, "times"), 1.5, "$.states[2].run.retry[0].times"),
        (("transitions", 0, "when", 0, "type"), "eval", "$.transitions[0].when[0].type"),
        (("transitions", 4, "actions", 0, "do"), "exec", "$.transitions[4].actions[0].do"),
        (("states", 0, "surprise"), 1, "$.states[0]"),
        (("version",), None, "$.version"),
    ],
)
def test_an_error_names_its_place(path: tuple[Any, ...], value: object, place: str) -> None:
    """A document of the wrong shape is refused with the path to what is wrong."""
    document = expense()
    inside: Any = document
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    with pytest.raises(DocumentError) as error:
        from_document(document)
    assert str(error.value).startswith("not a chart: ")
    assert f"`{place}`" in str(error.value)


def test_a_wrong_chart_is_a_definition_error() -> None:
    """A document of the right shape is judged like a class body: all problems at once."""
    document = expense()
    document["transitions"][0]["targets"] = ["reviw"]
    document["states"][2]["run"]["retry"][0]["jitter"] = 7
    with pytest.raises(DefinitionError) as error:
        from_document(document)
    assert len(error.value.problems) == 2
    assert "did you mean review?" in str(error.value)


def state(name: str, **fields: object) -> dict[str, object]:
    """A state of a document."""
    return {"id": name, **fields}


def chart_document(states: list[dict[str, object]], **fields: object) -> dict[str, Any]:
    """A document of these states."""
    return {"headway": 1, "name": "C", "initial": [states[0]["id"]], "states": states, **fields}


def nested_states(depth: int) -> list[dict[str, object]]:
    """States in states."""
    inner = [state(f"s{level}", kind="compound", parent=f"s{level - 1}") for level in range(1, depth - 1)]
    return [state("s0", kind="compound"), *inner, state("leaf", parent=f"s{depth - 2}")]


def nested_ifs(depth: int) -> list[dict[str, object]]:
    """Conditions in conditions."""
    actions: list[dict[str, object]] = [{"do": "log"}]
    for _ in range(depth):
        actions = [{"do": "if", "branches": [{"when": None, "actions": actions}]}]
    return actions


def laughs() -> object:
    """Data of 10^30 values in a few bytes of memory."""
    data: object = "ha"
    for _ in range(30):
        data = [data] * 10
    return data


def cycle() -> list[object]:
    """Data that holds itself."""
    data: list[object] = []
    data.append(data)
    return data


def regions(count: int) -> list[dict[str, object]]:
    """That many states active at once."""
    return [state("p", kind="parallel"), *(state(f"r{number}", parent="p") for number in range(count))]


def row(number: int, **fields: object) -> dict[str, object]:
    """A transition of a document."""
    return {"name": f"t{number}", "source": "*", **fields}


TOO_MUCH: dict[str, object] = {
    "text": " " * (export.LARGEST_TEXT + 1),
    "long value": expense(meaning="x" * (export.LARGEST_TEXT + 1)),
    "laughs": expense(schemas=laughs()),
    "cycle": expense(data=cycle()),
    "deep text": '{"headway":1,"schemas":' + "[" * 100_000 + "]" * 100_000 + "}",
    "deep data": expense(schemas={"a": nested_ifs(60)}),
    "states": chart_document([state(f"s{number}") for number in range(export.MOST_STATES + 1)]),
    "transitions": expense(transitions=[row(0)] * (export.MOST_TRANSITIONS + 1)),
    "targets": expense(transitions=[row(0, targets=["draft"] * (export.MOST_TARGETS + 1))]),
    "unnamed": expense(transitions=[row(0, source="draft")] * (export.MOST_UNNAMED + 1)),
    "name": expense(name="n" * (export.LONGEST_NAME + 1)),
    "active": chart_document(regions(export.MOST_ACTIVE + 1)),
    "entries": chart_document(regions(900), transitions=[row(n, targets=["p"]) for n in range(6_000)]),
    "number": expense(version=2**70),
    "infinite": expense(staff={"manager": float("inf")}),
    "surrogate": expense(meaning="\ud800"),
    "key": expense(schemas={1: 2}),
    "object": expense(schemas={"a": object()}),
    "set": {"headway"},
    "bytes": b"\xff\xfe",
    "no json": "{",
    "true": expense(headway=True),
    "nothing": None,
}


@pytest.mark.parametrize("document", TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_a_document_has_bounds(document: object) -> None:
    """What is no JSON, or could cost more memory than it takes to say, is refused before it is built."""
    with pytest.raises(DocumentError):
        from_document(document)


@pytest.mark.parametrize(
    ("fine", "wrong"),
    [
        (chart_document(nested_states(64)), chart_document(nested_states(65))),
        (
            chart_document([state("a")], initial_actions=nested_ifs(31)),
            chart_document([state("a")], initial_actions=nested_ifs(32)),
        ),
    ],
    ids=["states", "actions"],
)
def test_nesting_has_bounds(fine: dict[str, Any], wrong: dict[str, Any]) -> None:
    """States nest 64 deep, actions 32; one more is refused."""
    assert from_document(fine).name == "C"
    with pytest.raises(DefinitionError, match="levels deep"):
        from_document(wrong)


def forbidden(*_arguments: object) -> bool:
    """Fails whoever calls it."""
    raise AssertionError("reading a document called a function")


REGISTERED = dict.fromkeys(Expense.chart.functions, forbidden)

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
names = st.sampled_from(["draft", "review", "paid", "*", "has_receipt", "Verdict", "__import__('os')", ""])
data = st.recursive(
    scalars | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def tolerated(document: object) -> None:
    """Reading gives a chart that can be written again, or one of the two errors."""
    with contextlib.suppress(DocumentError, DefinitionError):
        chart = from_document(document, REGISTERED)
        assert from_document(json.dumps(to_document(chart))) == chart


@settings(max_examples=200, deadline=None)
@given(data | st.text(max_size=30) | st.binary(max_size=30))
def test_any_data_is_read_or_refused(document: object) -> None:
    """Nothing but a DocumentError or DefinitionError leaves the reader."""
    tolerated(document)


@settings(max_examples=100, deadline=None)
@given(
    st.fixed_dictionaries(
        {"headway": st.just(1), "name": st.text(max_size=3)},
        optional={key: data for key in model.Model.__struct_fields__ if key != "name"},
    )
)
def test_any_fields_are_read_or_refused(document: object) -> None:
    """Arbitrary values in the fields of a chart are refused one by one."""
    tolerated(document)


def places(value: object, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, each in inner for found in places(each, (*path, key)))]


SAMPLES = [to_document(chart) for chart in CHARTS.values()]
PLACES = [places(document)[1:] for document in SAMPLES]


@st.composite
def mutated(draw: st.DrawFn) -> object:
    """The document of a good chart with some values replaced, removed, or moved from elsewhere in it."""
    number = draw(st.integers(0, len(SAMPLES) - 1))
    document = copy.deepcopy(SAMPLES[number])
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(PLACES[number]))
        other = draw(st.sampled_from(PLACES[number]))
        try:
            inside = at(document, path)
            if draw(st.booleans()):
                inside[last] = draw(st.one_of(data, st.just(at(document, other)).map(copy.deepcopy)))
            else:
                del inside[last]
        except (LookupError, TypeError):
            continue  # An earlier change took the place away.
    return document


def at(document: object, path: Any) -> Any:
    """The value at a path."""
    for key in path:
        document = document[key]  # type: ignore[index]  # a LookupError or TypeError is the answer
    return document


@settings(max_examples=300, deadline=None)
@given(mutated())
def test_a_broken_document_is_read_or_refused(document: object) -> None:
    """Small changes to good charts reach deeper checks; still nothing else is raised, nothing called."""
    tolerated(document)


NAME_PLACES = {
    "the first state": ("initial", 0),
    "the first state of a region": ("states", 0, "initial", 0),
    "a state": ("states", 0, "id"),
    "a source": ("transitions", 0, "source"),
    "a target": ("transitions", 0, "targets", 0),
    "an event": ("transitions", 0, "events", 0),
    "a transition": ("transitions", 0, "name"),
    "a role": ("transitions", 0, "by", 0),
    "a guard": ("transitions", 0, "when", 0, "name"),
    "the chart": ("name",),
}


def small() -> dict[str, Any]:
    """A chart with one of everything that has a name."""
    guard = {"type": "call", "name": "g"}
    row = {"name": "go", "source": "a", "events": ["go"], "targets": ["b"], "by": ["clerk"], "when": [guard]}
    states = [
        {"id": "outer", "kind": "compound", "initial": ["a"]},
        {"id": "a", "parent": "outer"},
        {"id": "b", "parent": "outer"},
    ]
    return {"headway": 1, "name": "Small", "initial": ["outer"], "states": states, "transitions": [row]}


@pytest.mark.parametrize("path", NAME_PLACES.values(), ids=NAME_PLACES)
def test_an_empty_name_is_a_problem_of_the_definition(path: tuple[Any, ...]) -> None:
    """Wherever it stands, it is said what has no name."""
    document = small()
    from_document(document)
    *inside, last = path
    at(document, inside)[last] = ""
    with pytest.raises(DefinitionError, match=r"''|empty"):
        from_document(document)


@pytest.mark.parametrize("number", range(len(SAMPLES)), ids=[*CHARTS])
def test_an_empty_text_anywhere_is_read_or_refused(number: int) -> None:
    """Each text of each sample, replaced by an empty one."""
    document = copy.deepcopy(SAMPLES[number])
    for *path, last in PLACES[number]:
        inside = at(document, path)
        if path[:1] != ["schemas"] and isinstance(inside[last], str):
            kept, inside[last] = inside[last], ""
            tolerated(document)
            inside[last] = kept
