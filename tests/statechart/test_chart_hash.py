"""The digest of a chart: another one whenever the chart does something else, and only then."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, Field

from headway import Ask, Final, Run, State, Statechart
from headway.actions import put
from headway.codec import replace
from headway.statechart import model
from headway.statechart.chart import Chart
from headway.statechart.export import chart_hash, from_document, to_document
from tests.statechart.sample_charts import CHARTS

pytestmark = pytest.mark.mission("ENG-19")


def made(
    *, texts: str = "", fields: dict[str, Any] | None = None, **changes: Any
) -> Callable[[], type[Statechart]]:
    """A chart with texts for people, and with what is changed."""
    said = changes.pop("title", texts)

    class Data(BaseModel):
        """What the fields are, for people."""

        title: str = Field(default=said, description=texts)
        tags: set[str] = {"one", "two", "three"}
        extra: dict[str, Any] = fields or {}

    Data.__doc__ = texts
    settings: dict[str, Any] = {"version": changes.pop("version", 1), "context": Data}
    settings["facts"] = model.Fact(name="n", meaning=texts, example=len(texts))
    settings["accepts"] = {"wait-without-deadline:a": texts}

    def define() -> type[Statechart]:
        class Sample(Statechart, name="Sample", **settings):
            a = State(
                initial=True,
                run=changes.get("run", "x"),
                ask=Ask("m", form=Data, deadline=changes.get("deadline", "1d")),
                meaning=texts,
                waits_for=texts,
                says=texts,
            )
            b = Final()
            go = a.to(b, by=changes.get("by", "m"), do=put(**changes.get("put", {"x": 1})), meaning=texts)

        Sample.__doc__ = texts
        return Sample

    return define


def digest(define: Callable[[], type[Statechart]]) -> str:
    """The digest of a definition."""
    return chart_hash(define().chart.model)


def test_a_mended_text_leaves_the_digest_as_it_was() -> None:
    """Meanings, examples and accepted findings are for people: they make no new version."""
    one, other = made(texts="what it is", title="t"), made(texts="what it really is", title="t")
    assert to_document(one()) != to_document(other())
    assert digest(one) == digest(other)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"by": "n"},
        {"deadline": "2d"},
        {"run": "y"},
        {"run": Run("x", concurrency="k")},
        {"put": {"x": 2}},
        {"title": "another default"},
        {"fields": {"title": "a value, and no text"}},
    ],
    ids="+".join,
)
def test_whatever_a_chart_does_is_in_its_digest(changes: dict[str, Any]) -> None:
    """A change of rows, work, asks, actions or types is another chart."""
    assert digest(made(**changes)) != digest(made())


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS.keys())
def test_a_chart_keeps_its_digest_through_its_document(chart: Chart) -> None:
    """What is stored and read again is known to be the same."""
    again = from_document(to_document(chart)).model
    assert chart_hash(again) == chart_hash(chart.model)
    assert chart_hash(replace(again, meaning="something else")) == chart_hash(chart.model)
    assert len(chart_hash(again)) == 64


def test_a_digest_is_the_same_in_every_process() -> None:
    """The order of sets and of dictionaries, which differs between processes, does not matter."""
    script = (
        "from tests.statechart.test_chart_hash import digest, made;"
        "print(digest(made(by={'a', 'b', 'c', 'd'}, put={'y': 1, 'x': 2})))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1
    assert found == {digest(made(by={"d", "c", "b", "a"}, put={"x": 2, "y": 1})) + "\n"}
