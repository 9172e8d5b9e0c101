"""What must hold for a transition of an application, and what to say when it does not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from headway import No, View
from headway.lifecycles.applications.failures import (
    ENGINES,
    LOST,
    NOT_SENT,
    RECOVERABLE,
    SIGNALS,
    next_engine,
    retries_on,
)
from headway.lifecycles.applications.record import Field
from headway.statechart import Fact

FACTS = (
    Fact(
        name="usage",
        kind="counter",
        key="usage:{userId}",
        meaning="applications counted against the user's plan",
    ),
    Fact(
        name="runningTasks",
        kind="counter",
        key="running:{userId}",
        meaning="tasks of the user that are queued, in progress or waiting",
    ),
    Fact(name="recentTasks", meaning="tasks the user created in the last hour, this one among them"),
    Fact(name="rateLimit", meaning="tasks an hour the user may create", example=10),
    Fact(name="concurrencyLimit", meaning="tasks the user may run at once", example=3),
    Fact(name="planLimit", meaning="applications the user's plan covers", example=50),
)
MOST_RESTARTS = 2
MOST_REFILLS = 2
MOST_FIXES = 2
LEAST_AVERAGE = 0.7
LEAST_CONFIDENCE = 0.4


def on_a_server(view: View) -> bool | No:
    """The tier runs on the server."""
    return view.context.tier != "free" or No("the free tier runs in the browser extension, without a task")


def within_rate(view: View) -> bool | No:
    """The user's rate limit covers this one, which is counted already."""
    recent, limit = view.facts["recentTasks"], view.facts["rateLimit"]
    return recent <= limit or No(f"rate limit: {limit} tasks an hour, this is number {recent}")


def within_concurrency(view: View) -> bool | No:
    """The user may run one more at the same time."""
    running, limit = view.facts["runningTasks"], view.facts["concurrencyLimit"]
    return running < limit or No(f"{running} of {limit} tasks are running")


def within_plan(view: View) -> bool | No:
    """Refuse if the plan's limit is exceeded; `usage` already counts this application."""
    usage, limit = view.facts["usage"], view.facts["planLimit"]
    return usage <= limit or No(f"the plan covers {limit} applications, this is number {usage}")


def browser_there(view: View) -> bool:
    """The browser has an address."""
    return bool((view.event.data or {}).get("cdpUrl"))


def browser_ready(view: View) -> bool:
    """The browser has an address and a known engine is connected."""
    return browser_there(view) and view.event.data.get("engine") in ENGINES


def page_settled(view: View) -> bool:
    """The right page has settled."""
    return bool(view.event.data.get("settled") and view.event.data.get("matches"))


def has_fields(view: View) -> bool:
    """The form has at least one field to fill; a later page may have none."""
    return bool(view.event.data.get("fields")) or view.context.pageIndex > 0


def files_on_page(view: View) -> bool:
    """The page takes files."""
    return bool(view.event.data.get("filesOnPage"))


def resume_sent(view: View) -> bool:
    """The resume was uploaded."""
    return bool((view.event.data or {}).get("resumeUploaded"))


def mismatched(view: View) -> bool:
    """Some field does not read back as it was filled."""
    return bool(view.event.data.get("mismatches"))


def refills_left(view: View) -> bool:
    """Mismatches may be filled again."""
    return bool(view.context.refills < MOST_REFILLS)


def has_next(view: View) -> bool:
    """The page leads to another one."""
    return bool(view.event.data.get("hasNext"))


def has_submit(view: View) -> bool:
    """The page is the last one."""
    return bool(view.event.data.get("hasSubmit"))


def copilot(view: View) -> bool:
    """A person reviews each application of this task."""
    return bool(view.context.tier == "starter" or view.context.mode == "copilot")


def required_filled(view: View) -> bool:
    """No required field is empty, other than those for files."""
    return not any(field.is_missing for field in view.context.fields)


def upload_due(view: View) -> bool:
    """The form wants a resume and has none yet."""
    return bool(view.context.uploadNeeded and not view.context.resumeUploaded)


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


def gates_passed(view: View) -> bool:
    """All quality gates pass."""
    return bool(view.context.gates["passed"])


def fixes_left(view: View) -> bool:
    """Rejected values may be mended once more."""
    return view.counters["fixes"] < MOST_FIXES


def confirmed(view: View) -> bool:
    """A confirmation id or page was found."""
    return bool(view.event.data.get("confirmationId") or view.event.data.get("confirmationPage"))


def failed_as(view: View) -> str:
    """The code or signal of the work that failed."""
    return str(view.event.data["code"])


def in_doubt(view: View) -> bool:
    """Nothing says that the submission has not gone out."""
    return failed_as(view) not in {*NOT_SENT, *LOST}


def at_submission(view: View) -> bool:
    """The engines were about to submit."""
    return bool(view.context.currentStep == "submitting")


def form_lost(view: View) -> bool:
    """The form went with its browser, and was not submitted before."""
    return bool(view.context.formLost and not view.context.submitAttempted)


def lost_in_doubt(view: View) -> bool:
    """The form went with its browser, and may have been submitted before."""
    return bool(view.context.formLost and view.context.submitAttempted)


def edits_earlier_page(view: View) -> bool:
    """A value is corrected that stands on a page before this one."""
    return _earlier(view, view.payload.corrections)


def rejects_earlier_page(view: View) -> bool:
    """A value is rejected that stands on a page before this one."""
    return _earlier(view, view.event.data.get("validationErrors", ()))


def _earlier(view: View, names: Collection[str]) -> bool:
    task = view.context
    return any(field.name in names and field.page < task.pageIndex for field in task.fields)


def over_budget(view: View) -> bool | No:
    """More is spent than the application may cost."""
    spent, limit = view.payload.spent, view.payload.limit
    return spent > limit or No(f"{spent} of {limit} is spent")


def engine_may_help(view: View) -> bool:
    """The same engine again, or another one, may get past this failure."""
    return failed_as(view) in RECOVERABLE


def restarts_left(view: View) -> bool:
    """The browser may be restarted once more."""
    return view.counters["restarts"] < MOST_RESTARTS


def browser_dead(view: View) -> bool:
    """The browser is lost, not only its connection."""
    return failed_as(view) == "BROWSER_CRASH" or _target(view) == "restart"


def browser_gone(view: View) -> bool:
    """The browser must be restarted, and restarts are left."""
    return browser_dead(view) and restarts_left(view)


def still_there(view: View) -> bool:
    """The browser lives, though its work has failed."""
    return not browser_dead(view)


def browser_unplugged(view: View) -> bool:
    """The engine must be reconnected, and reconnects are left."""
    return failed_as(view) == "CDP_DISCONNECT" and view.counters["reconnects"] < MOST_RESTARTS


def captcha_failed(view: View) -> bool:
    """The work ran into a captcha."""
    return _target(view) == "human"


def _target(view: View) -> str:
    signal = SIGNALS.get(failed_as(view))
    return signal.target if signal else ""


def engine_may_retry(view: View) -> bool:
    """The engine has retries left for this failure."""
    task = view.context
    return bool(task.engineFailures <= retries_on(task.engine, task.failure))


def engine_left(view: View) -> bool:
    """The tier has another engine for this failure."""
    task = view.context
    return task.tier == "premium" and next_engine(task.engine, task.failure) is not None


def takeover_possible(view: View) -> bool:
    """The tier lets a person take over a browser that can be seen."""
    return view.context.tier == "premium" and bool(view.context.liveViewUrl)


def can_be_seen(view: View) -> bool | No:
    """A person can look at the browser."""
    return bool(view.context.liveViewUrl) or No("the browser has no live view")


def the_one_asked(view: View) -> bool | No:
    """The answer is to the question that was asked."""
    asked = view.context.fieldName
    return view.payload.fieldName == asked or No(f"the question is about {asked}")


def captcha_gone(view: View) -> bool:
    """The captcha is no longer there."""
    return bool(view.event.data.get("cleared"))


def browser_alive(view: View) -> bool:
    """The browser still answers."""
    return bool(view.event.data.get("alive"))
