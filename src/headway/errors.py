"""Every error Headway raises on purpose, in one tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = [
    "BusyError",
    "CallConflictError",
    "ChartChangedError",
    "ClientError",
    "DefinitionError",
    "DefinitionProblem",
    "DeliveryError",
    "DocumentError",
    "DrawingError",
    "EngineError",
    "EvaluationError",
    "EventRefusedError",
    "ExpressionError",
    "ForbiddenError",
    "GraphvizMissingError",
    "HeadwayError",
    "InputError",
    "InstanceExistsError",
    "InternalError",
    "LinkError",
    "NotFoundError",
    "NotHereError",
    "PermanentError",
    "ProblemError",
    "RateLimitedError",
    "RefusedError",
    "RequestReusedError",
    "ResourceTakenError",
    "ResultRefusedError",
    "SchemaError",
    "ServiceUnavailableError",
    "StoreError",
    "StoreFullError",
    "StoreUnavailableError",
    "TooDeepError",
    "TooLargeError",
    "UnauthenticatedError",
    "UnboundError",
    "UnfinishedError",
    "UnknownAskError",
    "UnknownChartError",
    "UnknownInstanceError",
    "UnknownKeyError",
    "UnknownVersionError",
    "UnreachableError",
    "UpgradeError",
    "VersionConflictError",
    "WorkLostError",
    "WrongLoopError",
    "shown",
]

LONGEST_SHOWN = 200
LONGEST_EXCERPT = 80


class HeadwayError(Exception):
    """The root of all errors raised on purpose."""


class DefinitionProblem(NamedTuple):
    """One thing that is wrong in a definition, and the line it stands on."""

    message: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.message
        place = f"{self.file}:{self.line}" if self.file else f"line {self.line}"
        return f"{place}: {self.message}"


class DefinitionError(HeadwayError):
    """A chart's definition is wrong; `problems` holds all that was found, not only the first."""

    def __init__(self, chart: str, problems: tuple[DefinitionProblem, ...]) -> None:
        self.chart = chart
        self.problems = problems
        lines = "\n".join(f"  {problem}" for problem in problems)
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__(f"chart {chart} has {count}:\n{lines}")


class DocumentError(HeadwayError):
    """A document from outside (JSON, SCXML) is not a chart."""


class UnboundError(HeadwayError):
    """A chart names functions or types that nobody has registered; `names` lists them."""

    def __init__(self, chart: str, names: tuple[str, ...]) -> None:
        self.chart = chart
        self.names = names
        super().__init__(f"chart {chart} cannot run: nothing is registered for {', '.join(names)}")


class ExpressionError(HeadwayError):
    """A text is not in the expression language; `position` says where it stops being so."""

    def __init__(self, message: str, text: str, position: int) -> None:
        self.message = message
        self.text = text
        self.position = position
        super().__init__(f"{message}, at character {position + 1} of {_excerpt(text)!r}")


class EvaluationError(HeadwayError):
    """An expression has no value here; `text` is the expression, when it is known."""

    def __init__(self, message: str, text: str = "") -> None:
        self.message = message
        self.text = text
        super().__init__(f"{message} (in {_excerpt(text)!r})" if text else message)


class DrawingError(HeadwayError):
    """Graphviz did not draw the chart; the text has its message."""


class GraphvizMissingError(DrawingError):
    """Graphviz, the program that draws charts, is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "Graphviz is not installed: there is no `dot` on the PATH. On Debian and Ubuntu it is the "
            "package graphviz: sudo apt-get install graphviz. Mermaid and the tables need no Graphviz."
        )


class InputError(HeadwayError):
    """An argument is not what the call takes: a snapshot of another chart, a value that is not an event."""


class TooDeepError(InputError):
    """JSON whose lists and objects are nested in more levels than are taken."""


class RefusedError(HeadwayError):
    """The chart refused a call, and nothing changed; `refusal` says why and what would be possible."""

    def __init__(self, message: str, refusal: Any) -> None:
        self.refusal = refusal
        super().__init__(message)


class InternalError(HeadwayError):
    """A rule of the core itself broke; nothing was changed. Please report it with its cause."""


class EngineError(HeadwayError):
    """A call to the engine cannot be answered as asked; nothing was changed."""


class WrongLoopError(EngineError):
    """A call came from another event loop or process than that of the open database."""


class UnknownChartError(EngineError):
    """No chart of this name and version is registered."""


class UnknownVersionError(UnknownChartError):
    """An instance follows a version of a chart that this process does not have; others may."""

    def __init__(self, chart: str, version: int, known: str) -> None:
        self.chart, self.version = chart, version
        super().__init__(f"this node does not know chart {chart} v{version}; it knows {known}")


class ChartChangedError(EngineError):
    """A chart is registered under a version that is stored with other contents."""


class UpgradeError(EngineError):
    """An instance cannot be upgraded, or not be brought back; `problems` says why, and it stays as it is."""

    def __init__(self, instance: str, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__(f"{instance} stays as it is: {'; '.join(problems)}")


class UnknownAskError(EngineError):
    """The tenant has no ask of this id."""


class UnknownKeyError(EngineError):
    """The tenant has no API key of this id, or only one that is revoked and cannot change any more."""


class LinkError(EngineError):
    """A link is forged, has run out, or was used for another answer."""


class UnknownInstanceError(EngineError):
    """The tenant has no instance of this id."""


class InstanceExistsError(EngineError):
    """The tenant already has an instance of this id."""


class RequestReusedError(EngineError):
    """A request id came back with another body."""


class VersionConflictError(EngineError):
    """The instance is not at the version the caller expected; `seq` is where it is."""

    def __init__(self, message: str, seq: int) -> None:
        self.seq = seq
        super().__init__(message)


class TooLargeError(EngineError):
    """A payload or a context is larger than the engine takes."""


class WorkLostError(EngineError):
    """A worker no longer holds an attempt; `status` says why: `left`, `lost` or `timeout`."""

    def __init__(self, message: str, status: str) -> None:
        self.status = status
        super().__init__(message)


class ResultRefusedError(EngineError):
    """The outcome of an attempt was not accepted, so the work has failed; `code` is its error code."""

    def __init__(self, message: str, code: str) -> None:
        self.code = code
        super().__init__(message)


class ResourceTakenError(EngineError):
    """Another worker holds a live resource under this affinity."""


class StoreError(HeadwayError):
    """A store could not do what it was asked to do."""


STORE_NOT_OPEN = "the store is not open: write `async with Node(...) as node:`, or `await node.open()` first"


class StoreUnavailableError(StoreError):
    """The database cannot be reached, or went away; `maybe_committed`: a change may be stored."""

    def __init__(self, message: str, *, maybe_committed: bool = False) -> None:
        self.maybe_committed = maybe_committed
        doubt = "; the change may have been committed" if maybe_committed else "; nothing was changed"
        super().__init__(message + doubt)


class StoreFullError(StoreError):
    """There is no room left on the database's disk; nothing was changed."""


class SchemaError(StoreError):
    """The database's schema is not the one this version needs; the text names the command that mends it."""


class DeliveryError(HeadwayError):
    """A destination did not accept a message; it is retried, not before `after` seconds if given."""

    def __init__(self, message: str, *, after: float = 0) -> None:
        self.after = after
        super().__init__(message)


class BusyError(DeliveryError):
    """A destination asks for a pause of `after` seconds before any further message."""


class UnreachableError(BusyError):
    """A destination cannot be reached; no message is to blame, and none uses up an attempt."""


class PermanentError(DeliveryError):
    """A destination will never accept this message: it becomes a dead letter at once."""


class NotHereError(DeliveryError):
    """A message that another node may deliver and this one cannot; no attempt is used up.

    `version` is the chart and version that the other node must know.
    """

    def __init__(self, message: str, version: tuple[str, int]) -> None:
        self.version = version
        super().__init__(message)


class UnfinishedError(DeliveryError):
    """A destination has done part of a delivery and continues after other messages; not a failure."""


class ClientError(HeadwayError):
    """A call over HTTP failed; `maybe_committed`: whether its change may have been stored all the same.

    `request_id` is its idempotency key: repeated with it, the call is made once and gets the first answer.
    """

    def __init__(self, message: str, *, request_id: str | None = None, maybe_committed: bool = False) -> None:
        self.request_id = request_id
        self.maybe_committed = maybe_committed
        doubt = f"; the change may have been committed: repeat the call with request_id={request_id!r}"
        super().__init__(message + doubt if maybe_committed and not self._is_settled() else message)

    def _is_settled(self) -> bool:
        """Whether a repeat would change nothing and get the same answer."""
        return False


class ServiceUnavailableError(ClientError):
    """The service could not be reached, went away, or cannot answer now.

    `status`, `code`, `document` and `retry_after` are those of its answer, if there was one.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        document: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
        maybe_committed: bool = False,
    ) -> None:
        self.status, self.document, self.retry_after = status, document or {}, retry_after
        self.code = str(self.document.get("code", ""))
        super().__init__(message, request_id=request_id, maybe_committed=maybe_committed)


CARRIED_OUT = frozenset({"secret_told", "result_refused"})
"""Codes of problems that report what the call has changed."""


class ProblemError(ClientError):
    """The service answered with an error; `code` says which, `document` is the whole problem document.

    `retry_after` is how many seconds the service asks to wait, if it does.
    """

    def __init__(
        self,
        status: int,
        document: Mapping[str, Any],
        *,
        retry_after: float | None = None,
        request_id: str | None = None,
        maybe_committed: bool = False,
    ) -> None:
        self.status, self.document, self.retry_after = status, document, retry_after
        self.code = str(document.get("code", ""))
        text = problem_text(status, document)
        super().__init__(text, request_id=request_id, maybe_committed=maybe_committed)

    def _is_settled(self) -> bool:
        return self.code in CARRIED_OUT


class UnauthenticatedError(ProblemError):
    """The service does not know the credential, or it has expired or was revoked (401)."""


class ForbiddenError(ProblemError):
    """The credential lacks a scope, or may do this only for itself (403)."""


class NotFoundError(ProblemError):
    """The caller's tenant has nothing of this name, or the service has no such route (404)."""


class CallConflictError(ProblemError):
    """The call conflicts with what is there: an id that exists, another version, a lost lease (409, 412)."""


class RateLimitedError(ProblemError):
    """Too many calls, or too many streams (429); `retry_after` says when there is room again."""


class EventRefusedError(ProblemError):
    """The chart refused an event over HTTP; nothing was changed.

    `states` says where the instance is, `allowed` which events it would accept, `reasons` why guards refused.
    """

    @property
    def states(self) -> tuple[str, ...]:
        """The states that the instance is in."""
        return tuple(self.document.get("states", ()))

    @property
    def allowed(self) -> tuple[str, ...]:
        """The events that it would accept now; `document["allowed"]` also says from whom."""
        return tuple(each["event"] for each in self.document.get("allowed", ()))

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why each transition for the event was refused."""
        return tuple(each["reason"] for each in self.document.get("objections", ()))


def problem_text(status: int, document: Mapping[str, Any]) -> str:
    """A problem document as the text of an error."""
    code = document.get("code")
    detail = document.get("detail") or document.get("title") or "the service gave no reason"
    return f"{status} {code}: {detail}" if code else f"{status}: {detail}"


def _excerpt(text: str) -> str:
    return text if len(text) <= LONGEST_EXCERPT else text[:LONGEST_EXCERPT] + "…"


def shown(value: object) -> str:
    """A value in an error message: never too long, whatever it does when it is looked at."""
    try:
        return repr(value)[:LONGEST_SHOWN]
    except Exception:  # noqa: BLE001 - any value may come in
        return f"a {type(value).__name__}"
