"""Artifacts: what goes into a task and comes out of it, as JSON of a limited size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headway.codec import as_json, encode
from headway.errors import TooLargeError

LARGEST_ARTIFACT = 100_000
LARGEST_TOGETHER = 500_000
"""Bytes of JSON. Artifacts travel with the events of a run: keep large things elsewhere and pass on where."""
LARGEST_COPIED = 10_000_000
"""Bytes of JSON that processes named in one call get of what their run was given: each keeps a copy."""


class ArtifactTooLargeError(TooLargeError):
    """An artifact, or all of a task together, is larger than what is kept."""

    code = "artifact_too_large"


def checked_artifacts(artifacts: Iterable[Any] | None) -> list[Any]:
    """Artifacts as they are kept; raises ArtifactTooLargeError, and InputError for what is not JSON."""
    if not artifacts:
        return []
    kept: list[Any] = as_json(list(artifacts))
    _require_sizes([len(encode(artifact)) for artifact in kept])
    return kept


Piece = tuple[int, int, int]
"""At which place of a process's artifacts, from which of its run's artifacts on, and how many."""


class Inheritance:
    """What a run was given: its processes get parts of it by number, neither carried nor measured again."""

    def __init__(self, artifacts: Sequence[Any]) -> None:
        self._texts = [encode(artifact) for artifact in artifacts]
        self._numbers = {text: number for number, text in reversed([*enumerate(self._texts)])}
        self._copied = 0

    def split(self, artifacts: Iterable[Any] | None) -> tuple[list[Any], list[Piece]]:
        """What is a process's own, checked as `checked_artifacts` does, and what it inherits."""
        if not artifacts:
            return [], []
        kept: list[Any] = as_json(list(artifacts))
        own, sizes, pieces = [], [], list[Piece]()
        for place, artifact in enumerate(kept):
            text = encode(artifact)
            if not self._inherits(text, place, pieces):
                own.append(artifact)
                sizes.append(len(text))
        _require_sizes(sizes)
        return own, pieces

    def _inherits(self, text: bytes, place: int, pieces: list[Piece]) -> bool:
        at, first, count = pieces[-1] if pieces else (-1, 0, 0)
        if at + count == place and self._texts[first + count : first + count + 1] == [text]:
            pieces[-1] = (at, first, count + 1)
        elif (number := self._numbers.get(text)) is not None:
            pieces.append((place, number, 1))
        else:
            return False
        self._copied += len(text)
        if self._copied > LARGEST_COPIED:
            raise ArtifactTooLargeError(
                f"the processes of one call get at most {LARGEST_COPIED:,} bytes of what their run was given"
            )
        return True


def copied_bytes(pieces: Iterable[Piece], given: Sequence[Any]) -> int:
    """How much of what a run was given these pieces are."""
    sizes = [len(encode(artifact)) for artifact in given]
    return sum(sum(sizes[first : first + count]) for _, first, count in pieces)


def joined(own: Sequence[Any], pieces: Iterable[Piece], given: Sequence[Any]) -> list[Any]:
    """The artifacts that `split` has taken apart."""
    whole = list(own)
    for place, first, count in pieces:
        whole[place:place] = given[first : first + count]
    return whole


def _require_sizes(sizes: Sequence[int]) -> None:
    for number, size in enumerate(sizes):
        if size > LARGEST_ARTIFACT:
            raise ArtifactTooLargeError(
                f"an artifact has at most {LARGEST_ARTIFACT:,} bytes, and number {number + 1} has {size:,}"
            )
    if sum(sizes) > LARGEST_TOGETHER:
        raise ArtifactTooLargeError(
            f"the artifacts of a task have at most {LARGEST_TOGETHER:,} bytes together, not {sum(sizes):,}"
        )
