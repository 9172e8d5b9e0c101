"""Damaged SCXML documents give a chart that runs, or a clear error."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway import Event, Refusal, Step, start, step
from headway.errors import DefinitionError, DocumentError
from headway.statechart.scxml.document import from_scxml
from tests.scxml.documents import NOW, TEXTS, scxml

pytestmark = pytest.mark.mission("ENG-18")

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
    """No text makes the reader fail otherwise; a chart it gives starts."""
    try:
        chart = from_scxml(text)
    except (DefinitionError, DocumentError):
        return
    begun = start(chart, now=NOW)
    assert isinstance(begun, (Step, Refusal))
    if isinstance(begun, Step):
        assert isinstance(step(chart, begun.snapshot, Event("t"), NOW), (Step, Refusal))
