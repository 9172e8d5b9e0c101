"""The SCION tests are complete, and their expressions are in the language that imported charts may use."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.statechart.expressions.expressions import ExpressionError, parse, parse_location

pytestmark = pytest.mark.mission("ENG-18")

MATERIAL = Path(__file__).parent / "scion"
CHARTS = sorted(MATERIAL.glob("*/*.scxml"))
EXCLUDED: dict[str, str] = json.loads((MATERIAL / "excluded.json").read_text(encoding="utf-8"))
NAMESPACE = "{http://www.w3.org/2005/07/scxml}"
EXPRESSIONS = (
    "array", "cond", "delayexpr", "eventexpr", "expr", "sendidexpr", "srcexpr", "targetexpr", "typeexpr",
)  # fmt: skip
LOCATIONS = ("idlocation", "index", "item", "location")

# Wrong on purpose: each must lead to error.execution when it is reached.
ILLEGAL = {
    ("assign/assign_invalid", "assign", "expr", "{p1: 'v1'"),
    ("data/data_invalid", "data", "expr", "{p1: 'v1'"),
    ("w3c-ecma/test152.txml", "foreach", "item", "'continue'"),
    ("w3c-ecma/test156.txml", "assign", "expr", "return"),
    ("w3c-ecma/test277.txml", "data", "expr", "return"),
    ("w3c-ecma/test309.txml", "transition", "cond", "return"),
    ("w3c-ecma/test312.txml", "assign", "expr", "return"),
    ("w3c-ecma/test313.txml", "assign", "expr", "return"),
    ("w3c-ecma/test314.txml", "assign", "expr", "return"),
    ("w3c-ecma/test344.txml", "transition", "cond", "return"),
    ("w3c-ecma/test457.txml", "foreach", "item", "'continue'"),
    ("w3c-ecma/test487.txml", "assign", "expr", "return"),
    ("w3c-ecma/test488.txml", "param", "expr", "return"),
    ("w3c-ecma/test528.txml", "content", "expr", "return"),
}


def name_of(chart: Path) -> str:
    """`GROUP/NAME` of a chart's file."""
    return f"{chart.parent.name}/{chart.name.removesuffix('.scxml')}"


def texts(chart: Path) -> Iterator[tuple[str, str, str]]:
    """Every element, attribute and text of a chart that holds an expression or a location."""
    for element in ET.parse(chart).iter():  # noqa: S314 - our own files
        tag = element.tag.removeprefix(NAMESPACE)
        for attribute in (*EXPRESSIONS, *LOCATIONS):
            if attribute in element.attrib:
                yield tag, attribute, element.attrib[attribute]
        for name in element.attrib.get("namelist", "").split():
            yield tag, "namelist", name


def is_legal(attribute: str, text: str) -> bool:
    """Whether a text is in the language that its attribute asks for."""
    try:
        if attribute in LOCATIONS:
            parse_location(text)
        else:
            parse(text)
    except ExpressionError:
        return False
    return True


def test_every_chart_is_in_or_out() -> None:
    """The package's 335 documents are all accounted for, each once, and each exclusion has a reason."""
    included = {name_of(chart) for chart in CHARTS}
    assert len(included) == 257
    assert len(EXCLUDED) == 78
    assert not included & EXCLUDED.keys()
    assert all(EXCLUDED.values())


@pytest.mark.parametrize("chart", CHARTS, ids=name_of)
def test_chart_is_complete_and_its_expressions_parse(chart: Path) -> None:
    """A chart has its script, and all its expressions are legal but for those that are wrong on purpose."""
    script = json.loads(chart.with_suffix(".json").read_text(encoding="utf-8"))
    assert script.keys() >= {"initialConfiguration", "events"}
    illegal = {(name_of(chart), *found) for found in texts(chart) if not is_legal(*found[1:])}
    assert illegal == {entry for entry in ILLEGAL if entry[0] == name_of(chart)}


@pytest.mark.parametrize("chart", CHARTS, ids=name_of)
def test_chart_needs_no_scripting_language(chart: Path) -> None:
    """No chart that is included runs scripts, starts sessions or reaches outside but for data beside it."""
    for element in ET.parse(chart).iter():  # noqa: S314 - our own files
        assert element.tag.removeprefix(NAMESPACE) not in {"script", "invoke", "finalize"}
        named = element.attrib.get("src", "")
        assert not named or (chart.parent / named.removeprefix("file:")).is_file()
        assert "HTTP" not in element.attrib.get("type", "")
