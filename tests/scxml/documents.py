"""SCXML documents for tests: the SCION material, and documents around given content."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

MATERIAL = sorted((Path(__file__).parent / "scion").glob("*/*.scxml"))
TEXTS = [path.read_text(encoding="utf-8") for path in MATERIAL]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def scxml(inside: str, attributes: str = "") -> str:
    """A document around this content, which begins on line 2."""
    return f'<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" {attributes}>\n{inside}\n</scxml>'
