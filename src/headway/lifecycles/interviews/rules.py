"""What the events of an interview carry, and the conditions and actions its chart names."""
# ruff: noqa: N815 - the data of a request and of its events keeps the names its receivers know

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from headway import No, View
from headway.actions import record
from headway.statechart import model

REQUIRED = ("candidateName", "candidateEmail", "jobTitle", "skills", "linkBase")
"""What must be known before skills can be validated."""

CALENDAR = ("scheduledFor", "jobTitle", "candidateName", "candidateEmail", "interviewLink")
"""What is kept for a calendar event."""

PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
ADDRESS = re.compile(r"https?://[^\s/?#]+[^\s?#]*", re.IGNORECASE)
NOT_IN_PATHS = re.compile(r"[^\w.~-]+", re.ASCII)

Document = dict[str, Any] | list[Any] | str


@dataclass(frozen=True)
class Info:
    """Required data, all of it or some."""

    candidateName: str | None = None
    candidateEmail: str | None = None
    jobTitle: str | None = None
    skills: list[Any] | None = None
    linkBase: str | None = None


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


RESULTS: dict[str, tuple[str, tuple[type, ...]]] = {
    "done.work.VALIDATING_SKILLS": ("validatedSkills", (list,)),
    "done.work.GENERATING_PLAN": ("plan", (dict, list, str)),
    "done.work.COMPLETED": ("assessment", (dict, list, str)),
}
"""What the work of an agent returns, if it does not end with the event that carries it."""


def missing(known: Mapping[str, Any]) -> list[str]:
    """The names of required data that is not there, is blank, or cannot be what it should."""
    return [name for name in REQUIRED if not _is_known(name, known.get(name))]


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


def has_result(view: View) -> bool | No:
    """The work returned what the event carries that ends it."""
    return bool(returned(view)) or No(f"the work returned no {RESULTS[view.event.name][0]}")


def returned(view: View) -> Mapping[str, Any]:
    """What the work of an agent returned: skills, plan or assessment."""
    name, kinds = RESULTS[view.event.name]
    data = view.event.data
    value = data.get(name) if isinstance(data, Mapping) else None
    return {name: value} if isinstance(value, kinds) else {}


def keep_info(view: View) -> Mapping[str, Any]:
    """The required data an event carries."""
    return {name: value for name, value in asdict(view.payload).items() if _is_known(name, value)}


def name_candidate(view: View) -> Mapping[str, Any]:
    """The actor id of the candidate: that of the request, or else the mail address in lower case."""
    known = view.context
    return {
        "candidate": known.get("candidateId") or str(known.get("candidateEmail") or "").strip().casefold()
    }


def note_missing(view: View) -> Mapping[str, Any]:
    """The names of what the operator is asked for."""
    return {"missing": missing(view.context)}


def keep_result(view: View) -> Mapping[str, Any]:
    """What an agent, the session or the recruiter brings: skills, plan, changes, transcript, assessment."""
    return asdict(view.payload)


def link_and_draft(view: View) -> Mapping[str, Any]:
    """The candidate's link, and the message draft with its placeholders filled in."""
    base = view.context["linkBase"].strip().rstrip("/")
    known = {**view.context, "interviewLink": f"{base}/interviews/{_in_path(view.instance)}"}
    draft = str(known.get("inmailDraft") or "")
    filled = PLACEHOLDER.sub(lambda found: _worded(known.get(found[1])) or found[0], draft)
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


def _is_known(name: str, value: object) -> bool:
    return KINDS.get(name, _is_text)(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_list(value: object) -> bool:
    return isinstance(value, list) and any(
        _is_text(item) if isinstance(item, str) else item for item in value
    )


def _is_address(value: object) -> bool:
    return isinstance(value, str) and ADDRESS.fullmatch(value.strip()) is not None


KINDS: dict[str, Callable[[object], bool]] = {"skills": _is_list, "linkBase": _is_address}


def _worded(value: object) -> str:
    """A value in a message to a person: texts, numbers, and lists of them; nothing for all else."""
    if isinstance(value, list):
        words = [_worded(item) for item in value]
        return ", ".join(words) if all(words) else ""
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _in_path(name: str) -> str:
    """A name as a part of an address."""
    return NOT_IN_PATHS.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), name)
