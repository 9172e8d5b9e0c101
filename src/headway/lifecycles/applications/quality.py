"""The gates an application passes before it is submitted without a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway.lifecycles.applications.record import Field

LEAST_AVERAGE = 0.7
LEAST_CONFIDENCE = 0.4


def judge(fields: Sequence[Field], *, resume_uploaded: bool, captcha_present: bool) -> dict[str, Any]:
    """The result of all five gates: passed, failures, overallConfidence and lowConfidenceFields."""
    filled = [field for field in fields if field.value and not field.is_file]
    average = sum(field.confidence for field in filled) / len(filled) if filled else 0.0
    low = [field for field in filled if field.confidence < LEAST_CONFIDENCE]
    gates = {
        "required_fields": not any(field.is_missing for field in fields),
        "average_confidence": average >= LEAST_AVERAGE,
        "low_confidence": not low,
        "resume_uploaded": resume_uploaded,
        "no_captcha": not captcha_present,
    }
    failures = [name for name, passed in gates.items() if not passed]
    return {
        "passed": not failures,
        "failures": failures,
        "overallConfidence": round(average, 4),
        "lowConfidenceFields": [{"name": field.name, "confidence": field.confidence} for field in low],
    }
