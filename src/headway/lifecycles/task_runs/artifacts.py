"""Artifacts: what goes into a task and comes out of it, as JSON of a limited size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headway.codec import as_json, encode
from headway.errors import TooLargeError

LARGEST_ARTIFACT = 100_000
LARGEST_TOGETHER = 500_000
"""Bytes of JSON. Artifacts travel with the events of a run: keep large things elsewhere and pass on where."""


class ArtifactTooLargeError(TooLargeError):
    """An artifact, or all of a task together, is larger than what is kept."""

    code = "artifact_too_large"


def checked_artifacts(artifacts: Iterable[Any] | None) -> list[Any]:
    """Artifacts as they are kept; raises ArtifactTooLargeError, and InputError for what is not JSON."""
    if not artifacts:
        return []
    kept: list[Any] = as_json(list(artifacts))
    sizes = [len(encode(artifact)) for artifact in kept]
    for number, size in enumerate(sizes):
        if size > LARGEST_ARTIFACT:
            raise ArtifactTooLargeError(
                f"an artifact has at most {LARGEST_ARTIFACT:,} bytes, and number {number + 1} has {size:,}"
            )
    if sum(sizes) > LARGEST_TOGETHER:
        raise ArtifactTooLargeError(
            f"the artifacts of a task have at most {LARGEST_TOGETHER:,} bytes together, not {sum(sizes):,}"
        )
    return kept
