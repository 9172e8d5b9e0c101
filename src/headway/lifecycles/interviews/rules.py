"""What the events of an interview carry, and the conditions and actions its chart names."""
# ruff: noqa: N815 - the data of a request and of its events keeps the names its receivers know

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from headway import No, View
from headway.actions import record
from headway.statechart import model

REQUIRED = ("candidateName", "candidateEmail", "jobTitle", "skills")
"""What must be known before skills can be validated."""

CALENDAR = ("scheduledFor", "jobTitle", "candidateName", "candidateEmail", "interviewLink")
"""What is kept for a calendar event."""

PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")

Document = dict[str, Any] | list[Any] | str


@dataclass(frozen=True)
class Info:
    """Required data, all of it or some."""

    candidateName: str | None = None
    candidateEmail: str | None = None
    jobTitle: str | None = None
    skills: list[Any] | None = None


@dataclass(frozen=True)
class Skills:
    """The skills as the catalogue knows them."""

    validatedSkills: list[Any]


@dataclass(frozen=True)
class Plan:
    """The plan of the interview."""

    plan: Document


@dataclass(frozen=True)
class Changes:
    """What the recruiter wants changed in the plan."""

    modifications: Document


@dataclass(frozen=True)
class Appointment:
    """When the interview takes place, and whether a calendar is to know of it."""

    scheduledFor: datetime
    calendar: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError for a time that is another one in another place."""
        if self.scheduledFor.tzinfo is None:
            raise ValueError("a time needs its offset, such as Z or +02:00")


@dataclass(frozen=True)
class Recording:
    """What was said in the session."""

    transcript: Document | None = None


@dataclass(frozen=True)
class Assessment:
    """What the assessor thinks of the session."""

    assessment: Document


def missing(known: Mapping[str, Any]) -> list[str]:
    """The names of required data that is not there, or is blank."""
    return [name for name in REQUIRED if _is_blank(known.get(name))]


def complete(view: View) -> bool | No:
    """All required data is there."""
    return _nothing_missing(view.context)


def incomplete(view: View) -> bool | No:
    """Some required data is missing."""
    return bool(missing(view.context)) or No("nothing is missing")


def completed_by_payload(view: View) -> bool | No:
    """All required data is there, with what this event adds."""
    return _nothing_missing({**view.context, **keep_info(view)})


def not_in_the_past(view: View) -> bool | No:
    """The appointment does not lie in the past."""
    return view.payload.scheduledFor >= view.now or No("the appointment lies in the past")


def keep_info(view: View) -> Mapping[str, Any]:
    """The required data an event carries."""
    return {name: value for name, value in asdict(view.payload).items() if not _is_blank(value)}


def note_missing(view: View) -> Mapping[str, Any]:
    """The names of what the operator is asked for."""
    return {"missing": missing(view.context)}


def keep_result(view: View) -> Mapping[str, Any]:
    """What an agent, the session or the recruiter brings: skills, plan, changes, transcript, assessment."""
    return asdict(view.payload)


def link_and_draft(view: View) -> Mapping[str, Any]:
    """The candidate's link, and the message draft with its placeholders filled in."""
    base = str(view.context.get("linkBase", "")).rstrip("/")
    known = {**view.context, "interviewLink": f"{base}/interviews/{view.instance}"}
    draft = str(known.get("inmailDraft") or "")
    filled = PLACEHOLDER.sub(lambda found: str(known.get(found[1], found[0])), draft)
    return {"interviewLink": known["interviewLink"], "inmailDraft": filled}


def keep_appointment(view: View) -> Mapping[str, Any]:
    """When it takes place."""
    return {"scheduledFor": view.payload.scheduledFor.isoformat()}


def calendar_event(view: View) -> list[model.Action]:
    """What a calendar needs to know is kept, if it is to know."""
    return [record("calendar_event", "{instance}", *CALENDAR)] if view.payload.calendar else []


def keep_reason(view: View) -> Mapping[str, Any]:
    """Why it was decided."""
    return {"reason": view.event.reason}


def _nothing_missing(known: Mapping[str, Any]) -> bool | No:
    absent = missing(known)
    return not absent or No(f"still missing: {', '.join(absent)}")


def _is_blank(value: object) -> bool:
    return not value or (isinstance(value, str) and not value.strip())
