"""Charts from SCXML: what is accepted, what is refused and where, and how mistakes show at run time."""

from __future__ import annotations

import pytest

from headway import Event, Refusal, Step, start, step
from headway.errors import DefinitionError, DocumentError
from headway.statechart import model
from headway.statechart.scxml.document import from_scxml
from headway.statechart.scxml.elements import MOST_TEXT, OWN
from tests.scxml.documents import NOW, scxml

pytestmark = pytest.mark.mission("ENG-18")


def begin(text: str, **context: object) -> Step:
    """The first step of a document's chart."""
    begun = start(from_scxml(text), now=NOW, context=context)
    assert isinstance(begun, Step)
    return begun


def after(text: str, *events: Event | str) -> tuple[str, ...]:
    """Where a document's chart is after these events, refused ones included."""
    chart, snapshot = from_scxml(text), begin(text).snapshot
    for event in events:
        taken = step(chart, snapshot, Event(event) if isinstance(event, str) else event, NOW)
        snapshot = taken.snapshot if isinstance(taken, Step) else snapshot
    return snapshot.states


NOT_A_DOCUMENT = {
    "empty": "",
    "no XML": "hello",
    "not closed": '<scxml xmlns="http://www.w3.org/2005/07/scxml"><state>',
    "two roots": scxml("<state/>") + scxml("<state/>"),
    "another language": '<html xmlns="http://www.w3.org/1999/xhtml"/>',
    "unknown prefix": scxml("<my:state/>"),
    "bytes of no encoding": b"<scxml>\xff\xfe</scxml>",
    "an encoding nobody knows": b'<?xml version="1.0" encoding="klingon"?><scxml/>',
    "half a character": "<scxml>\ud800</scxml>",
    "a document type": '<!DOCTYPE scxml SYSTEM "file:///etc/passwd">' + scxml("<state/>"),
    "entities that multiply": '<!DOCTYPE x [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]>'
    + scxml("<state>&b;</state>"),
    "too long": scxml("<state/>" + " " * MOST_TEXT),
    "too deep": scxml("<state>" * 200 + "</state>" * 200),
    "too deep elsewhere": scxml("<x:x xmlns:x='urn:x'>" * 200 + "</x:x>" * 200),
    "too many elements": scxml("<state/>" * 30_000),
}


@pytest.mark.parametrize("text", NOT_A_DOCUMENT.values(), ids=NOT_A_DOCUMENT)
def test_what_is_no_document_is_refused(text: str | bytes) -> None:
    """Broken, oversized or dangerous XML is a DocumentError, and nothing outside the text is opened."""
    with pytest.raises(DocumentError):
        from_scxml(text)


def test_a_document_is_text() -> None:
    """What is neither text nor bytes is a DocumentError too."""
    with pytest.raises(DocumentError, match="not int"):
        from_scxml(7)  # type: ignore[arg-type]  # what is tested


PROBLEMS = {
    "no states": ("", "at least one state"),
    "unknown element": ("<stat id='a'/><state/>", "<stat> does not belong into <scxml>"),
    "misplaced element": ("<state><send event='a'/></state>", "<send> does not belong into <state>"),
    "unknown attribute": ("<state name='a'/>", "<state> has no attribute name"),
    "missing attribute": ("<state><onentry><raise/></onentry></state>", "<raise> needs the attribute event"),
    "text": ("<state>hello</state>", "holds no text"),
    "duplicate id": ("<state id='a'/><state id='a'/>", "two states are called a"),
    "an id of two words": ("<state id='a b'/>", "is no id"),
    "an id like the root": ("<state id='*'/>", "is no id"),
    "unknown target": ("<state id='a'><transition target='b'/></state>", "'b', which does not exist"),
    "unknown initial": ("<state initial='b'><state/></state>", "'b', which does not exist"),
    "initial elsewhere": (
        "<state initial='b'><state/></state><state id='b'/>",
        "b cannot be the initial state",
    ),
    "initial of a leaf": ("<state initial='b'/><state id='b'/>", "only with states inside"),
    "initial twice": (
        "<state initial='b'><initial><transition target='b'/></initial><state id='b'/></state>",
        "either as attribute or as element",
    ),
    "initial states that exclude each other": (
        "<state initial='a b'><state id='a'/><state id='b'/></state>",
        "cannot be active together",
    ),
    "targets that exclude each other": (
        "<state id='a'><transition target='a b'/></state><state id='b'/>",
        "cannot be active together",
    ),
    "too many targets": (
        f"<state><transition target='{' '.join(f's{n}' for n in range(99))}'/></state>",
        "more than 16 states",
    ),
    "initial without target": ("<state><initial/><state/></state>", "has one <transition>"),
    "initial with a condition": (
        "<state><initial><transition cond='1' target='b'/></initial><state id='b'/></state>",
        "neither event nor cond",
    ),
    "history without default": ("<state><history/><state/></state>", "has one <transition>"),
    "history of no kind": (
        "<state><history type='long'><transition target='a'/></history><state id='a'/></state>",
        "shallow or deep",
    ),
    "history in a leaf": (
        "<state id='a'><history><transition target='a'/></history></state>",
        "cannot have children",
    ),
    "transition of no kind": (
        "<state><transition event='a' type='sideways'/></state>",
        "internal or external",
    ),
    "script": ("<state><onentry><script>x = 1</script></onentry></state>", "needs a scripting language"),
    "script on top": ("<script/><state/>", "needs a scripting language"),
    "invoke": ("<state><invoke type='scxml' src='other.scxml'/></state>", "starts another session"),
    "another file": (
        "<datamodel><data id='a' src='file:///etc/passwd'/></datamodel><state/>",
        "did not come with the chart",
    ),
    "a variable without name": ("<datamodel><data id='a.b'/></datamodel><state/>", "no name for a variable"),
    "a variable of the system": (
        "<datamodel><data id='_event'/></datamodel><state/>",
        "no name for a variable",
    ),
    "XML as a value": (
        "<datamodel><data id='a'><b xmlns=''/></data></datamodel><state/>",
        "needs DOM objects",
    ),
    "foreign XML as a value": (
        "<datamodel><data id='a'><b xmlns='urn:b'/></data></datamodel><state/>",
        "needs DOM",
    ),
    "a value twice": (
        "<datamodel><data id='a' expr='1'>2</data></datamodel><state/>",
        "either expr or a text",
    ),
    "a number beyond numbers": (
        "<datamodel><data id='a'>1e999</data></datamodel><state/>",
        "the text of <data>",
    ),
    "half a character": (
        '<datamodel><data id="a">"\\ud800"</data></datamodel><state/>',
        "the text of <data>",
    ),
    "a delay of no unit": ("<state><onentry><send event='a' delay='5'/></onentry></state>", "not a duration"),
    "an event twice": ("<state><onentry><send event='a' eventexpr='b'/></onentry></state>", "not both"),
    "two contents": (
        "<state><onentry><send event='a' namelist='b'><content>c</content></send></onentry></state>",
        "either <content> or named values",
    ),
    "cancel nothing": ("<state><onentry><cancel/></onentry></state>", "needs sendid or sendidexpr"),
    "else before the end": (
        "<state><onentry><if cond='1'><else/><elseif cond='2'/></if></onentry></state>",
        "last part of an <if>",
    ),
    "a part that only Headway knows": (f"<state xmlns:h='{OWN}' h:by='boss'/>", "headway:by would be lost"),
    "an element that only Headway knows": (
        f"<state><h:ask xmlns:h='{OWN}'/></state>",
        "headway:<ask> would be lost",
    ),
}


@pytest.mark.parametrize(("inside", "message"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_document_that_is_no_chart_is_refused_with_the_line(inside: str, message: str) -> None:
    """Each problem says what is wrong and names the line of its element."""
    with pytest.raises(DefinitionError) as error:
        from_scxml(scxml(inside))
    found = [problem for problem in error.value.problems if message in problem.message]
    assert found, error.value
    assert found[0].file == ""
    assert found[0].line == (2 if inside else 1)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("datamodel='xpath'", "xpath is not known"),
        ("binding='often'", "early or late"),
        ("speed='9'", "no attribute"),
    ],
)
def test_attributes_of_the_whole_are_checked(attributes: str, message: str) -> None:
    """A data model, a binding or an attribute nobody knows is a problem of the first line."""
    with pytest.raises(DefinitionError, match=message) as error:
        from_scxml(scxml("<state/>", attributes))
    assert [problem.line for problem in error.value.problems] == [1]


@pytest.mark.parametrize("version", ["0", "-1", "x", "1.0", "9" * 20])
def test_a_version_is_a_number(version: str) -> None:
    """The version that Headway itself writes is checked when it is read."""
    with pytest.raises(DefinitionError, match="headway:version"):
        from_scxml(scxml("<state/>", f"xmlns:h='{OWN}' h:version='{version}'"))


def test_all_problems_are_told_at_once_in_the_order_of_lines() -> None:
    """Problems of form and of structure come together, sorted by line."""
    text = scxml(
        "<state id='a'>\n<transition target='nowhere'/>\n<onentry><script/></onentry>\n"
        "<transition target='a'\n type='odd'/>\n</state>"
    )
    with pytest.raises(DefinitionError) as error:
        from_scxml(text)
    assert [problem.line for problem in error.value.problems] == [3, 4, 5]


def test_a_flood_of_problems_is_cut() -> None:
    """A hostile document cannot make the list of its problems endless."""
    with pytest.raises(DefinitionError) as error:
        from_scxml(scxml("<state><transition target='x' speed='1'/></state>" * 9_000))
    assert len(error.value.problems) <= 200


@pytest.mark.parametrize(
    "inside",
    [
        "<parallel id='p'>"
        + "<state/>" * 2_000
        + "<transition event='e' target='p'/>" * 10_000
        + "</parallel>",
        "<state id='a'>" + "<transition event='e'/>" * 19_000 + "</state>",
        "<datamodel><data id='a'>" + "[" * 900_000 + "</data></datamodel><state/>",
        "<state><transition event='e' cond='" + "(" * 900_000 + "'/></state>",
    ],
    ids=["parallel", "transitions", "data", "expression"],
)
def test_large_documents_are_read(inside: str) -> None:
    """Documents up to the limits are read without growing out of proportion."""
    assert begin(scxml(inside)).snapshot.states


@pytest.mark.parametrize("name", ["ecmascript", "null", "headway"])
def test_known_data_models(name: str) -> None:
    """The names of data models whose expressions the language covers are accepted."""
    assert begin(scxml("<state id='a'/>", f"datamodel='{name}'")).snapshot.states == ("a",)


def test_the_parts_of_a_document_become_the_model() -> None:
    """Ids, initial states with content, history, variables, output and transitions are kept as data."""
    whole = from_scxml(
        scxml(
            """<datamodel><data id="n" expr="1"/><data id="m">[1, {"a": null}]</data></datamodel>
            <state id="outer">
              <initial><transition target="b"><log expr="n"/></transition></initial>
              <history id="h" type="deep"><transition target="a"><raise event="x"/></transition></history>
              <state id="a"/>
              <state id="b"><datamodel><data id="k">two   words</data></datamodel></state>
              <transition event="go.* stop" cond="n == 1" target="h" type="internal"/>
              <transition event="go" target="end"/>
            </state>
            <final id="end"><donedata><param name="r" location="n"/></donedata></final>
            <state/>""",
            "name='whole'",
        )
    ).model
    outer, history, _, inner, end, unnamed = whole.states
    assert (whole.name, whole.initial, whole.dialect) == ("whole", ("outer",), "scxml")
    assert [(datum.id, datum.expr, datum.value) for datum in whole.data] == [
        ("n", "1", None), ("m", None, [1, {"a": None}]), ("k", None, "two words"),
    ]  # fmt: skip
    assert (outer.initial, outer.initial_actions) == (("b",), (model.Log(expr="n"),))
    assert (history.kind, history.initial, history.initial_actions) == (
        "deep",
        ("a",),
        (model.Raise(event="x"),),
    )
    assert inner.data == ()
    assert end.output == model.Payload(params=(model.Param(name="r", location="n"),))
    assert unnamed.id == "state1"
    assert whole.transitions == (
        model.Transition(
            name="go",
            source="outer",
            events=("go.*", "stop"),
            targets=("h",),
            internal=True,
            when=(model.Formula(text="n == 1"),),
        ),
        model.Transition(name="go_2", source="outer", events=("go",), targets=("end",)),
    )


@pytest.mark.parametrize(
    ("delay", "expected"), [("1s", 1000), ("500ms", 500), (".5s", 500), ("1.5s", 1500), ("0s", 0)]
)
def test_delays(delay: str, expected: int) -> None:
    """Delays are read as CSS writes them."""
    whole = from_scxml(scxml(f"<state><onentry><send event='e' delay='{delay}'/></onentry></state>")).model
    assert whole.states[0].entry == ((model.Send(event="e", delay=expected),),)


def test_foreign_elements_are_skipped() -> None:
    """Elements and attributes of other namespaces change nothing, whatever they hold."""
    plain = "<state id='a'/>"
    drawn = "<state id='a' v:x='1' xmlns:v='urn:v'><v:box>text<state id='b'/><script/></v:box></state>"
    assert from_scxml(scxml(drawn)) == from_scxml(scxml(plain))


BEHAVIOUR = {
    "an expression that is wrong": (
        """<state id='a'><onentry><assign location='x' expr='return'/></onentry>
        <transition event='error.execution' target='b'/></state><state id='b'/>""",
        "b",
    ),
    "a condition always wrong": ("<state id='a'><transition cond='return' target='a'/></state>", None),
    "a variable named like a word of Headway": (
        """<datamodel><data id='counters' expr='5'/></datamodel>
        <state id='a'><transition cond='counters == 5' target='b'/></state><state id='b'/>""",
        "b",
    ),
    "loops in loops": (
        "<datamodel><data id='l' expr='[1,2,3,4,5,6,7,8,9,10]'/></datamodel><state><onentry>"
        + "<foreach array='l' item='i'>" * 8 + "<raise event='e'/>" + "</foreach>" * 8 + "</onentry></state>",
        None,
    ),
    "an id for each message": (
        """<datamodel><data id='i'/><data id='j'/></datamodel>
        <state><onentry><send event='e' idlocation='i'/><send event='e' idlocation='j'/></onentry>
        <transition event='e' cond='i != j' target='b'/></state><state id='b'/>""",
        "b",
    ),
    "to cancel an unknown id cancels nothing": (
        """<datamodel><data id='i'/></datamodel>
        <state id='a'><onentry><send event='e' delay='1s'/><cancel sendidexpr='i'/></onentry></state>""",
        "a",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("inside", "state"), BEHAVIOUR.values(), ids=BEHAVIOUR)
def test_a_start_ends_in_a_state_or_is_refused(inside: str, state: str | None) -> None:
    """A mistake in a document leads to error.execution, one that never ends to a refusal."""
    begun = start(from_scxml(scxml(inside)), now=NOW)
    if state is None:
        assert isinstance(begun, Refusal)
        assert begun.code == "runaway"
    else:
        assert isinstance(begun, Step)
        assert begun.snapshot.states == (state,)
        assert len(begun.snapshot.timers) == inside.count("delay=")


LATE = """<state id="a"><transition event="go" target="b"/></state>
<state id="b"><datamodel><data id="x" expr="1"/></datamodel>
  <onentry><assign location="x" expr="x + 1"/></onentry>
  <transition event="again" target="a"/><transition event="*" cond="x == 3" target="c"/></state>
<state id="c"/>"""


def test_late_variables_get_their_value_once() -> None:
    """With late binding a variable has its first value when its state is entered first, and keeps it."""
    chart = from_scxml(scxml(LATE, "binding='late'"))
    assert chart.model.states[1].data
    assert after(scxml(LATE, "binding='late'"), "go", "again", "go", "end") == ("c",)


def test_a_context_given_at_the_start_wins() -> None:
    """Values given with the start take the place of those in the document."""
    text = scxml("<datamodel><data id='x' expr='1'/><data id='y' expr='x + 1'/></datamodel><state/>")
    assert begin(text, x=5).snapshot.context == {"x": 5, "y": 6}


@pytest.mark.parametrize("events", [["go", "go", "go_2"], ["go_2", "go", "go"], ["go.*", "go", "*", "."]])
def test_every_transition_has_a_name_of_its_own(events: list[str]) -> None:
    """Names made from events do not collide, whatever the events are called."""
    rows = "".join(f"<transition event='{event}'/>" for event in events)
    names = [row.name for row in from_scxml(scxml(f"<state>{rows}</state>")).model.transitions]
    assert len(set(names)) == len(events)


HOSTILE = {
    "a history that leads to itself": (
        '<state id="s"><history id="h"><transition target="h"/></history><state id="x"/></state>',
        "is a history state too",
    ),
}


@pytest.mark.parametrize(("inside", "message"), HOSTILE.values(), ids=HOSTILE)
def test_a_document_that_would_never_end_is_refused(inside: str, message: str) -> None:
    """What could only go round in circles is a problem of the document."""
    with pytest.raises(DefinitionError, match=message):
        from_scxml(f'<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0">{inside}</scxml>')


def test_conditions_that_fail_again_and_again_end_a_step() -> None:
    """Each failure is an event, and each event asks the conditions again: the step gives up, soon."""
    rows = '<transition cond="x"/>' * 400
    chart = from_scxml(
        f'<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0"><state id="s">{rows}</state></scxml>'
    )
    begun = start(chart, now=NOW)
    assert isinstance(begun, Refusal)
    assert begun.code == "runaway"
