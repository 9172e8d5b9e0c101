"""What the events of an interview carry, what it keeps, and what it tells."""

from __future__ import annotations

from typing import Any

import pytest

from headway import Event
from headway.clock import time_text
from headway.lifecycles.interviews.chart import Interview
from headway.statechart.effects import StoreRecord
from headway.testing import Journey
from tests.lifecycles.interviewing import ACTORS, APPOINTMENT, before, event, interview, messages
from tests.lifecycles.lifecycle_page import payloads, published, table_of

PAGE = "interviews.md"
INFO = {
    "candidateName": "Cleo",
    "candidateEmail": "cleo@example.org",
    "jobTitle": "Baker",
    "skills": ["bread"],
    "linkBase": "https://talks.example.org",
}


@pytest.mark.mission("INT-FX")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("VALIDATE", {"skills": ["bread"]}),
        ("REQUEST_INFO", {"missing": ["skills"]}),
        ("COMPLETE_INFO", INFO),
        ("PLAN_READY", {"plan": ["q"]}),
        ("MODIFY", {"modifications": "one more question"}),
        ("START", {"startedAt": "2026-01-01T09:00:00.000000Z"}),
        (
            "COMPLETE",
            {"startedAt": "2026-01-01T09:00:00.000000Z", "completedAt": "2026-01-01T09:00:00.000000Z"},
        ),
        ("ASSESS", {"assessment": {"score": 4}}),
        ("APPROVE_ASSESSMENT", {"assessment": {"score": 4}}),
    ],
)
def test_messages_carry_what_was_found(name: str, told: object) -> None:
    """What the work found and people asked for reaches all receivers of a transition."""
    life = before(name)
    life.send(event(name))
    assert all(message.data == told for message in messages(life))
    assert messages(life)


@pytest.mark.mission("INT-FX")
def test_an_approval_carries_the_link_and_the_filled_draft() -> None:
    """The webhook of an approval has the interview's link and the draft with placeholders filled in."""
    life = interview("PENDING")
    life.send(event("APPROVE"))
    link = "https://talks.example.org/interviews/i1"
    draft = f"Hello Cleo, join at {link} for Baker {{{{unknown}}}}"
    assert [message.data for message in messages(life)] == [{"interviewLink": link, "inmailDraft": draft}]


@pytest.mark.mission("INT-FX")
@pytest.mark.parametrize(
    ("value", "worded"),
    [
        ("rye", "rye"),
        (["bread", " rolls "], "bread, rolls"),
        ([1, 2.5], "1, 2.5"),
        (0, "0"),
        ("{{jobTitle}}", "{{jobTitle}}"),
        (None, None),
        (" ", None),
        ([], None),
        (["bread", None], None),
        ({"name": "bread"}, None),
        (True, None),
    ],
)
def test_a_placeholder_is_filled_with_what_a_person_would_write(value: object, worded: str | None) -> None:
    """Texts, numbers and lists of them; what cannot be said in words leaves the placeholder as it is."""
    life = interview("PENDING", wanted=value, inmailDraft="We want {{ wanted }}.")
    life.send(event("APPROVE"))
    assert life.snapshot.context["inmailDraft"] == f"We want {worded or '{{ wanted }}'}."


@pytest.mark.mission("INT-FX")
@pytest.mark.parametrize(
    ("base", "instance", "link"),
    [
        ("https://talks.example.org/hr/", "i1", "https://talks.example.org/hr/interviews/i1"),
        ("HTTP://localhost:8000", "i 1/é?", "HTTP://localhost:8000/interviews/i%201%2F%C3%A9%3F"),
    ],
)
def test_a_link_leads_to_the_interview(base: str, instance: str, link: str) -> None:
    """The link is whole, whatever the interview's id is made of."""
    life = Journey(Interview, instance=instance, context={**INFO, "linkBase": base})
    for name in ("VALIDATE", "SKILLS_VALIDATED", "PLAN_READY", "APPROVE"):
        life.send(event(name))
    assert life.snapshot.context["interviewLink"] == link


@pytest.mark.mission("INT-T", "INT-FX")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("skills", "bread"),
        ("skills", [""]),
        ("skills", [" ", None]),
        ("skills", {"bread": 1}),
        ("jobTitle", 7),
        ("candidateName", ["Cleo"]),
        ("candidateEmail", {}),
        ("linkBase", "talks.example.org"),
        ("linkBase", "/interviews"),
        ("linkBase", "https://"),
        ("linkBase", "javascript://x"),
        ("linkBase", "https://talks.example.org?to="),
    ],
)
def test_what_cannot_be_the_data_is_missing(name: str, value: object) -> None:
    """Data of another kind, lists of nothing and a link that leads nowhere are asked for, not taken."""
    changes: dict[str, Any] = {name: value}
    life = interview(**changes)
    life.work_done()
    assert life.snapshot.context["missing"] == [name]
    assert f"still missing: {name}" in life.refused(event("COMPLETE_INFO", data={})).message
    life.send(event("COMPLETE_INFO", data={name: INFO[name]}))
    assert (life.states, life.snapshot.context[name]) == (("VALIDATING_SKILLS",), INFO[name])


@pytest.mark.mission("INT-FX")
@pytest.mark.parametrize("draft", [None, "", 7])
def test_an_approval_needs_no_draft(draft: object) -> None:
    """A request without a draft, or with one that is no text, is approved all the same."""
    life = interview("PENDING", inmailDraft=draft)
    life.send(event("APPROVE"))
    assert life.snapshot.context["inmailDraft"] == str(draft or "")


@pytest.mark.mission("INT-FX")
def test_a_rejection_tells_its_reason() -> None:
    """The reason a recruiter gives reaches the receivers."""
    life = interview("PENDING")
    life.send(Event("REJECT", by=ACTORS["recruiter"], reason="too short"))
    assert messages(life)[0].data == {"reason": "too short"}


@pytest.mark.mission("INT-T")
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("COMPLETE_INFO", {"skills": "bread"}),
        ("COMPLETE_INFO", {"skills": ["bread"], "jobTitle": 7}),
        ("SKILLS_VALIDATED", {}),
        ("SKILLS_VALIDATED", {"validatedSkills": "bread"}),
        ("PLAN_READY", {}),
        ("PLAN_READY", {"plan": None}),
        ("MODIFY", {}),
        ("MODIFY", {"modifications": 3}),
        ("SCHEDULE", {}),
        ("SCHEDULE", {"scheduledFor": "soon"}),
        ("SCHEDULE", {"scheduledFor": "2026-05-01T10:00:00"}),
        ("SCHEDULE", {**APPOINTMENT, "calendar": "yes"}),
        ("COMPLETE", {"transcript": 5}),
        ("ASSESS", {}),
        ("ASSESS", {"assessment": None}),
    ],
)
def test_data_that_does_not_fit_is_refused(name: str, data: dict[str, Any]) -> None:
    """An event without its data, or with data of another kind, changes nothing."""
    life = before(name)
    unchanged = life.snapshot
    assert life.refused(event(name, data=data)).code == "payload"
    assert life.snapshot == unchanged


@pytest.mark.mission("INT-T")
@pytest.mark.parametrize(
    ("when", "code"),
    [
        ("2026-01-01T08:59:59Z", "guard"),
        ("2026-01-01T10:59:59+02:00", "guard"),
        ("2026-01-01T09:00:00.000000Z", None),
        ("2026-01-01T11:00:01+02:00", None),
    ],
)
def test_an_appointment_does_not_lie_in_the_past(when: str, code: str | None) -> None:
    """An interview is scheduled for a time to come, or for now."""
    answer = interview("APPROVED").attempt(event("SCHEDULE", data={"scheduledFor": when}))
    assert getattr(answer, "code", None) == code


@pytest.mark.mission("INT-CAL")
@pytest.mark.parametrize("wanted", [True, False])
def test_a_calendar_event_is_kept_if_it_is_wanted(wanted: bool) -> None:  # noqa: FBT001 - a parameter
    """SCHEDULE keeps what a calendar event needs, when it is asked to."""
    life = interview("APPROVED")
    life.send(event("SCHEDULE", data={**APPOINTMENT, "calendar": wanted}))
    kept = [effect for effect in life.steps[-1].effects if isinstance(effect, StoreRecord)]
    assert len(kept) == wanted
    for record in kept:
        assert (record.kind, record.key) == ("calendar_event", "i1")
        assert record.data == {
            **APPOINTMENT,
            "jobTitle": "Baker",
            "candidateName": "Cleo",
            "candidateEmail": "cleo@example.org",
            "interviewLink": "https://talks.example.org/interviews/i1",
        }


@pytest.mark.mission("INT-T")
def test_an_interview_keeps_its_times_and_results() -> None:
    """Skills, plan, appointment, start, end, transcript and assessment are known when it is over."""
    life = interview("ASSESSMENT_PENDING")
    known = life.snapshot.context
    found = {
        "validatedSkills": ["bread"],
        "plan": ["q"],
        "transcript": ["hello"],
        "assessment": {"score": 4},
        "startedAt": time_text(life.clock.now()),
        "completedAt": time_text(life.clock.now()),
        **APPOINTMENT,
    }
    assert {name: known[name] for name in found} == found


@pytest.mark.mission("INT-T", "INT-FX")
def test_a_plan_is_written_again_with_what_the_recruiter_wants() -> None:
    """MODIFY leads back to the planner as often as it takes, and the new plan takes the old one's place."""
    life = interview("PENDING")
    for number in (1, 2):
        life.send(event("MODIFY", data={"modifications": number * ["more"]}))
        assert life.snapshot.context["modifications"] == number * ["more"]
        assert list(life.snapshot.work) == ["GENERATING_PLAN"]
        life.send(event("PLAN_READY", data={"plan": {"version": number}}))
        assert life.snapshot.context["plan"] == {"version": number}


@pytest.mark.mission("INT-T")
def test_a_session_may_end_without_a_transcript() -> None:
    """What was recorded may lie elsewhere."""
    life = interview("IN_PROGRESS")
    life.send(Event("COMPLETE", by=ACTORS["edge"]))
    assert (life.states, life.snapshot.context["transcript"]) == (("COMPLETED",), None)


@pytest.mark.mission("INT-T", "INT-FX")
def test_the_page_tells_what_events_and_messages_carry() -> None:
    """The tables of the page are those of the chart."""
    assert table_of(PAGE, "Event") == payloads(Interview)
    assert table_of(PAGE, "Transition") == published(Interview)


@pytest.mark.mission("INT-T")
def test_a_request_may_begin_with_nothing() -> None:
    """An empty request is received, and all required fields are asked for."""
    life = Journey(Interview, context={})
    life.work_done()
    assert life.snapshot.context["missing"] == list(INFO)
