"""The Grafana dashboard asks for metrics and labels that there are."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.telemetry.test_metrics import Shop, approved

pytestmark = pytest.mark.mission("ENG-16")

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/observability.md"
FILE = Path(__file__).resolve().parents[2] / "deploy/grafana/headway.json"
BOARD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
EXPRESSIONS = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
EXPRESSIONS += [each["query"] for each in BOARD["templating"]["list"] if each["type"] == "query"]
METRIC = re.compile(r"\b((?:headway|process)_\w+)(?:\{([^}]*)\})?")
GROUPED = re.compile(r"by \(([^)]*)\) \((?:rate\()?((?:headway|process)_\w+)")


async def test_every_expression_names_what_is_told(database: str) -> None:
    """Each metric exists under this very name, with each label that is asked for or grouped by."""
    shop = Shop(database)
    async with shop.open() as tenant:
        await approved(tenant, "flaky-1")
        text = (await shop.metrics.text()).decode()
    told: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            told.setdefault(sample.name, set()).update(sample.labels)
    for expression in EXPRESSIONS:
        found = METRIC.findall(expression)
        assert found, expression
        for name, labels in found:
            assert name in told, expression
            assert {*re.findall(r"(\w+)=", labels)} <= told[name], expression
        for labels, name in GROUPED.findall(expression):
            assert {label.strip() for label in labels.split(",")} <= told[name], expression


def test_panels_do_not_overlap_and_have_names() -> None:
    """The board can be read: each place is taken once, each panel has a title and a number of its own."""
    places = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in BOARD["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(places) == len({*places})
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    assert all(panel["title"] for panel in BOARD["panels"])


async def test_the_page_names_each_metric(database: str) -> None:
    """The tables have every metric that a node reports, and those of a process that serves streams."""
    shop = Shop(database)
    async with shop.open() as tenant:
        await approved(tenant, "flaky-1")
        text = (await shop.metrics.text()).decode()
    told = set(re.findall(r"^# TYPE (headway_\w+)", text, re.MULTILINE))
    named = set(re.findall(r"`(headway_\w+)`", PAGE.read_text(encoding="utf-8")))
    assert told - named == set()
    assert {name for name in named - told if "_streams_" not in name and "_handshakes_" not in name} == set()
