"""One application in a test: the plain way through its chart, and detours from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headway import Event, person
from headway.clock import time_text
from headway.lifecycles.applications.chart import Application
from headway.statechart.effects import PublishMessage, SpawnChild, StoreRecord, WriteLog
from headway.statechart.snapshot import Actor
from headway.statechart.step.step import Step, status_of
from headway.testing import Journey

USER = person("ann", "user")
ADMIN = person("root", "admin")
WORKER = Actor("w1", "service", frozenset({"worker"}))
LIMITS = {
    "recentTasks": 1,
    "rateLimit": 5,
    "runningTasks": 0,
    "concurrencyLimit": 2,
    "usage": 1,
    "planLimit": 10,
}
MODES = {"starter": "copilot", "pro": "autopilot", "premium": "autopilot"}
GOOD = {
    "name": "email",
    "value": "ann@example.org",
    "confidence": 0.95,
    "source": "profile",
    "required": True,
    "type": "text",
    "page": 0,
}
DOUBTFUL = {**GOOD, "name": "salary", "confidence": 0.3}
BROWSER = {"cdpUrl": "ws://b", "profileId": "p1", "engine": "dom", "liveViewUrl": "https://view/1"}
PAGE = {"settled": True, "matches": True, "platform": "lever"}
LAST_PAGE = {"hasSubmit": True}
SENT = {"resumeUploaded": True}


class Applying(Journey):
    """A journey of one application."""

    def __init__(self, tier: str = "pro", mode: str | None = None, **context: Any) -> None:
        task = {"jobUrl": "https://jobs/1", "userId": "ann", "resumeId": "r1", "tier": tier}
        super().__init__(
            Application,
            instance="task1",
            context={**task, "mode": mode or MODES.get(tier, "copilot"), **context},
            facts=LIMITS,
        )

    @property
    def status(self) -> str | None:
        """The persisted status."""
        return status_of(Application, self.states)

    @property
    def record(self) -> Mapping[str, Any]:
        """The record's fields."""
        return self.snapshot.context

    def until(self, state: str, fields: list[dict[str, Any]] | None = None) -> Applying:
        """Go the plain way until a state is active."""
        plain: dict[str, Any] = {
            "queued": None,
            "provisioning": BROWSER,
            "navigating": PAGE,
            "analyzing": {"fields": fields or [GOOD], "formFlow": {"pages": 1}},
            "filling_page": {"fields": fields or [GOOD]},
            "reading_back": {},
            "finding_way": LAST_PAGE,
            "uploading": SENT,
            "submitting": {},
        }
        while not self.is_in(state):
            if self.is_in("created"):
                self.send(Application.dispatch())
            elif self.is_in("reviewing"):
                self.send(Application.review_approved(by=USER))
            else:
                self.work_done(plain[self.snapshot.state])
        return self

    def last(self, kind: type) -> list[Any]:
        """What the last step asked the world to do, of one kind."""
        return [effect for effect in self.steps[-1].effects if isinstance(effect, kind)]

    def told(self, name: str) -> list[Any]:
        """The data of all live messages of a type."""
        return [
            e.data
            for e in self.effects
            if isinstance(e, PublishMessage) and e.kind == "live" and e.name == name
        ]

    def logged(self) -> list[str]:
        """The types of the event log so far."""
        return [effect.label for effect in self.effects if isinstance(effect, WriteLog)]

    def checkpoints(self) -> list[str]:
        """The checkpoints passed so far, each stored and logged."""
        keys = [effect.key.split(":") for effect in self.effects if isinstance(effect, StoreRecord)]
        assert {instance for instance, *_ in keys} <= {"task1"}
        stored = [name for _, name, *_ in keys]
        logged = [each["subType"] for each in self.log("checkpoint")]
        assert stored == [each for each in logged if not each.startswith("workflow_")]
        return stored

    def log(self, kind: str) -> list[Any]:
        """The data of all lines of the event log of a type."""
        return [each.data for each in self.effects if isinstance(each, WriteLog) and each.label == kind]

    def rest(self) -> None:
        """Let an engine that is to try again rest for as long as it does."""
        assert self.states == ("retrying",)
        self.advance_to(next(each.due for each in self.snapshot.timers.values() if each.state == "retrying"))

    def turn_page(self) -> Applying:
        """Go on to the next page of the form."""
        self.until("finding_way").work_done({"hasNext": True})
        self.work_done()
        return self

    def worker(self, name: str, data: object = None) -> Step:
        """The worker ends its work with an event."""
        (work,) = self.snapshot.work.values()
        return self.send(Event(name, data, WORKER, ref=work.id, attempt=work.attempt))


def ended(life: Applying, status: str) -> None:
    """The life is over: the record says so, it was told, and what a worker may hold is released."""
    assert (life.status, life.record["status"], life.snapshot.ended) == (status, status, True)
    assert life.record["completedAt"] == time_text(life.clock.now())
    assert life.told("state_change")[-1]["to"] == status
    held = {key: life.record[key] for key in ("profileId", "cdpUrl")} | {"taskId": "task1"}
    released = [(child.chart, child.context) for child in life.last(SpawnChild)]
    assert released == ([("applications.cleanup", held)] if life.record["startedAt"] else [])


def failed_with(life: Applying) -> str:
    """The error code of an application that has failed."""
    ended(life, "failed")
    assert life.record["errorMessage"]
    return str(life.record["errorCode"])


def switch(life: Applying) -> None:
    """Let the cascade's steps succeed until work resumes."""
    steps = {
        "capturing": {"pageState": {"url": "u"}},
        "disconnecting": None,
        "checking_browser": {"alive": True},
        "connecting": None,
        "restoring": None,
        "checking_engine": None,
    }
    for step, result in steps.items():
        assert life.states == (step,)
        life.clock.advance("1s")
        life.work_done(result)


def _done(result: object = None) -> Callable[[Applying], object]:
    return lambda life: life.work_done(result)


def _fails(code: str) -> Callable[[Applying], object]:
    return lambda life: life.work_fails(code)


def _reports(event: str, data: object) -> Callable[[Applying], object]:
    return lambda life: life.worker(event, data)


def _exhaust(life: Applying) -> None:
    life.work_fails("canvas_element")
    switch(life)
    life.work_fails("canvas_element")


ONWARD: dict[str, tuple[str, Callable[[Applying], object]]] = {
    "uploading_files": ("filling_page", _done({"filesOnPage": True})),
    "refilling": ("reading_back", _done({"mismatches": ["email"]})),
    "clicking_next": ("finding_way", _done({"hasNext": True})),
    "retrying": ("filling_page", _fails("selector_not_found")),
    "capturing": ("filling_page", _fails("canvas_element")),
    "disconnecting": ("capturing", _done({"pageState": {"url": "u"}})),
    "checking_browser": ("disconnecting", _done()),
    "connecting": ("checking_browser", _done({"alive": True})),
    "restoring": ("connecting", _done()),
    "checking_engine": ("restoring", _done()),
    "handing_over": ("filling_page", _exhaust),
    "restarting": ("filling_page", _fails("BROWSER_CRASH")),
    "reconnecting": ("filling_page", _fails("CDP_DISCONNECT")),
    "waiting_captcha": ("filling_page", _reports("captcha_detected", {"captchaType": "hcaptcha"})),
    "clearing_captcha": ("waiting_captcha", lambda life: life.send(Application.captcha_solved({}, by=USER))),
    "waiting_takeover": ("handing_over", _done()),
    "checking_submission": (
        "waiting_takeover",
        lambda life: life.send(Application.human_resolved({}, by=USER)),
    ),
    "last_look": ("waiting_takeover", lambda life: life.advance("300s")),
    "waiting_answer": ("filling_page", _reports("field_ambiguous", {"fieldName": "visa"})),
    "waiting_security": ("filling_page", _reports("security_challenged", {})),
    "completed": ("verifying", _done({"confirmationId": "C-1"})),
    "failed": ("analyzing", _done({"fields": []})),
    "cancelled": ("created", lambda life: life.send(Application.cancel(by=USER))),
}
"""States off the plain way: from which one, and by what."""


def at(state: str, tier: str = "") -> Applying:
    """An application that stands in a state, of a tier that can get there."""
    if state in ONWARD:
        before, onward = ONWARD[state]
        life = at(before, tier)
        onward(life)
    else:
        tier = tier or ("starter" if state == "reviewing" else "premium")
        life = Applying(tier).until(state, [DOUBTFUL] if state == "gate_review" else None)
    assert life.states == (state,)
    return life
