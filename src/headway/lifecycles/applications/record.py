"""What is known of an application, and what its events carry."""
# ruff: noqa: N815 - the record and the events keep the names their API gives them

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Tier = Literal["free", "starter", "pro", "premium"]
Mode = Literal["copilot", "autopilot"]
Engine = Literal["dom", "cua", "vision"]


@dataclass(frozen=True)
class Field:
    """A field of the form: what was filled in, how sure that is, where it came from, and on which page it is.

    Its type is text, select, checkbox or another one; `file` is what an upload fills.
    """

    name: str
    value: str = ""
    confidence: float = 0.0
    source: str = ""
    required: bool = False
    type: str = "text"
    page: int = 0

    @property
    def is_file(self) -> bool:
        """Whether an upload fills it."""
        return self.type == "file"

    @property
    def is_missing(self) -> bool:
        """Whether something must be filled in that is not."""
        return self.required and not self.value and not self.is_file


@dataclass(frozen=True)
class Task:
    """One application: what was asked for, the record of its progress, and what the work found out."""

    jobUrl: str = ""
    userId: str = ""
    resumeId: str = ""
    tier: Tier = "starter"
    mode: Mode = "copilot"

    status: str = ""
    currentStep: str = ""
    startedAt: str | None = None
    completedAt: str | None = None
    durationSeconds: float | None = None
    errorCode: str | None = None
    errorMessage: str | None = None
    errorRetriable: bool | None = None

    profileId: str = ""
    cdpUrl: str = ""
    engine: Engine = "dom"
    liveViewUrl: str = ""
    platform: str = ""
    formFlow: dict[str, Any] = field(default_factory=dict)
    pageIndex: int = 0
    fields: list[Field] = field(default_factory=list)
    mismatches: list[str] = field(default_factory=list)
    refills: int = 0
    uploadNeeded: bool = True
    resumeUploaded: bool = False
    captchaPresent: bool = False
    gates: dict[str, Any] = field(default_factory=dict)
    validationErrors: dict[str, str] = field(default_factory=dict)
    submitAttempted: bool = False
    takenOver: bool = False
    formLost: bool = False
    confirmationId: str = ""
    confirmationPage: bool = False
    screenshotUrl: str = ""

    failure: str = ""
    failureMessage: str = ""
    engineFailures: int = 0
    previousEngine: str = ""
    switchReason: str = ""
    switchMs: int = 0
    pageState: dict[str, Any] = field(default_factory=dict)

    captchaType: str = ""
    fieldName: str = ""
    fieldOptions: list[str] = field(default_factory=list)
    skippedFields: list[str] = field(default_factory=list)
    corrections: dict[str, str] = field(default_factory=dict)
    notes: str = ""


@dataclass(frozen=True)
class Held:
    """What an application may still hold when it has ended."""

    taskId: str = ""
    profileId: str = ""
    cdpUrl: str = ""


@dataclass(frozen=True)
class FieldFilled:
    """One field was filled."""

    name: str
    value: str = ""
    confidence: float = 0.0
    source: str = ""


@dataclass(frozen=True)
class EngineOperation:
    """What an engine did."""

    engine: str
    operation: str
    success: bool
    durationMs: int = 0


@dataclass(frozen=True)
class Screenshot:
    """A screenshot was taken."""

    url: str
    label: str = ""


@dataclass(frozen=True)
class Spend:
    """What the application has cost so far, and what it may cost."""

    spent: float
    limit: float


@dataclass(frozen=True)
class Captcha:
    """A captcha was found."""

    captchaType: Literal["recaptcha_v2", "recaptcha_v3", "hcaptcha", "turnstile", "custom"]
    screenshotUrl: str = ""


@dataclass(frozen=True)
class Question:
    """A field that the user's data does not answer."""

    fieldName: str
    fieldOptions: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Challenge:
    """A security check that only the account's owner can meet."""

    screenshotUrl: str = ""


@dataclass(frozen=True)
class Solved:
    """The captcha is solved."""

    solvedBy: Literal["user"] = "user"


@dataclass(frozen=True)
class Answer:
    """What the user says to a question."""

    fieldName: str
    value: str


@dataclass(frozen=True)
class Edit:
    """Values the user wants instead."""

    corrections: dict[str, str]


@dataclass(frozen=True)
class Resolution:
    """What a person has done in the browser."""

    notes: str = ""
