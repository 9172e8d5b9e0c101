"""Charts written as SCXML: read back they are the same, and other tools can read them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway import (
    Ask,
    Event,
    Final,
    History,
    Parallel,
    Refusal,
    State,
    Statechart,
    Step,
    any_live,
    start,
    step,
)
from headway.errors import DefinitionError, DocumentError
from headway.statechart import model
from headway.statechart.chart import Chart
from headway.statechart.scxml.document import from_scxml
from headway.statechart.scxml.writer import to_scxml
from headway.statechart.scxml.xml import OWN

pytestmark = pytest.mark.mission("ENG-18")

MATERIAL = sorted((Path(__file__).parent / "scion").glob("*/*.scxml"))
TEXTS = [path.read_text(encoding="utf-8") for path in MATERIAL]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def scxml(inside: str, attributes: str = "") -> str:
    """A document around this content, which begins on line 2."""
    return f'<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" {attributes}>\n{inside}\n</scxml>'


@pytest.mark.parametrize("path", MATERIAL, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_chart_from_scxml_is_written_and_read_back(path: Path) -> None:
    """Written as SCXML and read again, a chart is the same chart."""
    files = {f"file:{each.name}": each.read_text(encoding="utf-8") for each in path.parent.glob("*.txt")}
    chart = from_scxml(path.read_bytes(), files)
    assert from_scxml(to_scxml(chart)) == chart


TRICKY = """<datamodel><data id="a">" 1"</data><data id="b">""</data><data id="c">"1"</data>
<data id="d">"\\u0001\\ufffe&amp;&lt;"</data><data id="e">null</data><data id="f">a &amp; b</data></datamodel>
<transition event="*" target="s.1"/>
<state id="s.1"><datamodel><data id="g">{}</data></datamodel><onentry/><onentry>
<send event="e" type="" target="&#10;&#13;&#9;&quot;'&lt;" namelist="a b">
<param name="p" expr="a &lt; &quot;&quot;"/></send>
<send eventexpr="a" id="" delay="90s"><content> "" </content></send><send event="x"><content expr=""/></send>
<if cond=""><elseif cond="a"/><log/><else/><log label="l" expr=""/></if>
<assign location="a"> [1] </assign></onentry>
<transition cond=""/><state/><parallel><state/><state/></parallel></state>"""


@pytest.mark.parametrize("attributes", ["", "binding='late' name='n'", f"xmlns:h='{OWN}' h:version='3'"])
def test_tricky_texts_survive_the_round_trip(attributes: str) -> None:
    """Quotes, line ends, control characters, empty texts and texts like JSON come back as they were."""
    chart = from_scxml(scxml(TRICKY, attributes))
    assert from_scxml(to_scxml(chart)) == chart
    assert chart.version == (3 if "version" in attributes else 1)


class Claim(Statechart, version=2, staff={"boss": 2}):
    """A claim, "with <everything>" SCXML cannot say."""

    typing, checking = State(), State(meaning="looked at")
    left = State(typing, checking)
    idle, busy = State(), State()
    right = State(idle, busy)
    back = History(deep=True)
    both = Parallel(left, right)
    edited = State(both, back, initial=True)
    asked = State(ask=Ask("boss", deadline="2d"))
    paying = State(run="pay", timeout="1m")
    paid, lost = Final(), Final()

    check = typing.to(checking)
    begin = idle.to(busy)
    ask = edited.to(asked, by="clerk", when="amount > 1", emit="claim.asked")
    more = asked.to(back)
    approve = asked.to(paying, by="boss", distinct_from="ask", quorum=2)
    done = paying.on_done.to(paid)
    late = asked.on_deadline.to(lost)
    drop = any_live.to(lost, but=(paying, busy))


def readable_by_others(chart: Chart) -> Chart:
    """The chart another tool would see: all of Headway's namespace is taken out."""
    root = ET.fromstring(to_scxml(chart))  # noqa: S314 - our own text
    for element in root.iter():
        for key in [key for key in element.attrib if OWN in key]:
            del element.attrib[key]
        for child in [child for child in element if OWN in child.tag]:
            element.remove(child)
    return from_scxml(ET.tostring(root))


def test_other_tools_see_the_structure_of_a_native_chart() -> None:
    """States, initial states, transitions, events and expressions are there without the namespace."""
    whole, seen = Claim.chart.model, readable_by_others(Claim.chart).model
    assert [(s.id, s.kind, s.parent) for s in seen.states] == [(s.id, s.kind, s.parent) for s in whole.states]
    assert seen.states[0].initial == whole.states[0].initial
    rows = {(row.source, row.events, row.targets, row.when) for row in seen.transitions}
    own = [row for row in whole.transitions if row.source != model.ROOT]
    assert rows >= {(row.source, row.events, row.targets, row.when) for row in own}
    dropped = {row.source: row.when[0] for row in seen.transitions if row.events == ("drop",)}
    assert dropped.keys() == {"edited", "asked"}
    assert dropped["edited"] == model.Formula(text="(!In('paying')) && (!In('busy'))")


def test_what_scxml_cannot_say_is_in_a_namespace() -> None:
    """Roles, duties, work and asks are written down, and reading them back is refused, not ignored."""
    text = to_scxml(Claim.chart)
    for part in (
        "headway:by",
        "headway:quorum",
        "headway:distinct_from",
        "<headway:ask",
        "<headway:run",
        "headway:version",
    ):
        assert part in text
    with pytest.raises(DefinitionError, match="headway:by would be lost"):
        from_scxml(text)


class Plain(Statechart):
    """Only what SCXML can say."""

    one, two = State(), State()
    last = History()
    inner = State(one, two, last, initial=True)
    away = State()
    paused = State()
    over = Final()

    flip = one.to(two) | two.to(one)
    leave = inner.to(away)
    back = away.to(last)
    pause = any_live.to(paused, but=(two,))
    resume = paused.to(last)
    stop = any_live.to(over, but=(away,))


@given(st.lists(st.sampled_from(["flip", "leave", "back", "pause", "resume", "stop"]), max_size=12))
def test_a_native_chart_written_as_scxml_behaves_the_same(events: list[str]) -> None:
    """Transitions from any live state, repeated on each outermost state, mean the same."""
    charts = Plain.chart, readable_by_others(Plain.chart)
    snapshots = [begun.snapshot for chart in charts if isinstance(begun := start(chart, now=NOW), Step)]
    for event in events:
        for place, chart in enumerate(charts):
            taken = step(chart, snapshots[place], Event(event), NOW)
            snapshots[place] = taken.snapshot if isinstance(taken, Step) else snapshots[place]
        assert snapshots[0].states == snapshots[1].states


WORDS = [
    "<state>", "<parallel>", "<history/>", "id='a'", "target='a b'", "initial='a'", "<if cond=''>",
    "</state>", "</if>", "&x;", "<![CDATA[", "]]>", "<!--", "<!DOCTYPE x>", "xmlns=''", '"', "\0", "\ud800",
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A document of the material in which pieces are cut out, doubled, moved or replaced."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 4))):
        first, last = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        last = min(last, first + draw(st.sampled_from([0, 1, 5, 40, 400])))
        piece = draw(st.sampled_from(["", text[first:last] * 2, *WORDS]))
        text = text[:first] + piece + text[last:]
    return text


@st.composite
def reworded(draw: st.DrawFn) -> str:
    """A document of the material in which attribute values are exchanged: mostly still XML."""
    parts = draw(st.sampled_from(TEXTS)).split('"')
    for _ in range(draw(st.integers(1, 6))):
        one, other = draw(st.tuples(*[st.integers(0, max(0, len(parts) // 2 - 1))] * 2))
        parts[2 * one + 1 : 2 * one + 2] = [
            draw(st.sampled_from(["", "a", parts[min(2 * other + 1, len(parts) - 1)]]))
        ]
    return '"'.join(parts)


@settings(max_examples=300, deadline=None)
@given(st.one_of(damaged(), reworded(), st.text(), st.binary(), st.text(alphabet="<>/ast=\"'& ").map(scxml)))
def test_any_text_gives_a_chart_that_runs_or_a_clear_error(text: str | bytes) -> None:
    """No text makes the reader fail otherwise; a chart it gives starts and survives the round trip."""
    try:
        chart = from_scxml(text)
    except (DefinitionError, DocumentError):
        return
    assert from_scxml(to_scxml(chart)) == chart
    begun = start(chart, now=NOW)
    assert isinstance(begun, (Step, Refusal))
    if isinstance(begun, Step):
        assert isinstance(step(chart, begun.snapshot, Event("t"), NOW), (Step, Refusal))
