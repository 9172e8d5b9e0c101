"""The actions of an application's transitions: what they store, log and publish, and the checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from headway import View
from headway.actions import add, live, put, record, spawn
from headway.clock import time_text
from headway.lifecycles.applications.failures import ALL, code_of, next_engine
from headway.lifecycles.applications.guards import judge
from headway.statechart import delay, model

Action = Callable[[View], Mapping[str, Any]]
BACKOFF = model.Retry(base=1_000, factor=2, cap=10_000, jitter=0.3)


@cache
def keep(*fields: str) -> Action:
    """Take these fields of what the event carries into the record, as far as it has them."""

    def kept(view: View) -> Mapping[str, Any]:
        data = view.event.data or {}
        return {field: data[field] for field in fields if field in data}

    kept.__name__ = f"keep_{'_'.join(fields)}"
    return kept


def log(kind: str, data: str = "_event.data") -> model.Log:
    """A line of the task's event log."""
    return model.Log(label=kind, expr=data)


def fails(code: str, message: str = "") -> model.Put:
    """The error of a failure that the chart itself finds."""
    known = ALL[code]
    return put(errorCode=code, errorMessage=message or known.message, errorRetriable=known.retriable)


def fails_shown(code: str, message: str = "") -> tuple[Action, model.Put]:
    """The same, with the screenshot of it that the work has sent."""
    return keep("screenshotUrl"), fails(code, message)


def error_kept(view: View) -> Mapping[str, Any]:
    """The error of work that failed for good, with the screenshot of it that the work has sent."""
    data = view.event.data
    return {**_error(code_of(data["code"]), data.get("message")), **_screenshot(data)}


def failure_kept(view: View) -> Mapping[str, Any]:
    """What went wrong, for the choice of an engine."""
    data = view.event.data
    failures = view.context.engineFailures + 1
    kept = {"failure": data["code"], "failureMessage": data.get("message", ""), "engineFailures": failures}
    return {**kept, **_left_behind(view, data["code"]), **_screenshot(data)}


def engine_missing(view: View) -> Mapping[str, Any]:
    """A browser that came without an engine, for the choice of another one."""
    failure = "ENGINE_CONNECT_FAILED"
    return {"failure": failure, "failureMessage": "", "engineFailures": 1, **_left_behind(view, failure)}


def _left_behind(view: View, reason: str) -> Mapping[str, Any]:
    """The log entry of a switch of engines, with the engines that were skipped until one connected."""
    return {"previousEngine": view.context.engine, "switchReason": reason}


def _screenshot(data: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"screenshotUrl": data["screenshotUrl"]} if "screenshotUrl" in data else {}


def failure_given_up(view: View) -> Mapping[str, Any]:
    """The error that no engine could get past."""
    return _error(code_of(view.context.failure), view.context.failureMessage)


def _error(code: str, message: object) -> Mapping[str, Any]:
    known = ALL.get(code)
    text = str(message or (known.message if known else code))
    return {"errorCode": code, "errorMessage": text, "errorRetriable": known.retriable if known else None}


def engine_chosen(view: View) -> Mapping[str, Any]:
    """The next engine, with a clean slate."""
    task = view.context
    return {"engine": next_engine(task.engine, task.failure), "engineFailures": 0}


def switch_timed(view: View) -> Mapping[str, Any]:
    """How long the switch took."""
    return {"switchMs": round((view.now - view.since["engine_cascade"]).total_seconds() * 1000)}


def form_kept(view: View) -> Mapping[str, Any]:
    """What the analysis of a page says of the form; that of a later page adds to it."""
    task, data = view.context, view.event.data
    is_later = task.pageIndex > 0
    needed = data.get("uploadNeeded", task.uploadNeeded)
    return {
        "platform": data.get("platform", task.platform),
        "formFlow": {**(task.formFlow if is_later else {}), **data.get("formFlow", {})},
        "uploadNeeded": needed or (is_later and task.uploadNeeded),
    }


def fields_kept(view: View) -> Mapping[str, Any]:
    """What the work says of fields, by their names: those of earlier pages stay, and stay there."""
    task = view.context
    known = {each.name: asdict(each) for each in task.fields}
    for each in (view.event.data or {}).get("fields", ()):
        page = known.get(each["name"], {"page": task.pageIndex})["page"]
        known[each["name"]] = {**each, "page": page}
    return {"fields": [*known.values()]}


def page_turned(view: View) -> Mapping[str, Any]:
    """One page further; what the last one showed is gone."""
    return {"pageIndex": view.context.pageIndex + 1, "captchaPresent": False}


def hands_noted(view: View) -> Mapping[str, Any]:
    """A person gets at the browser: while it submits, they may be the one who does."""
    task = view.context
    return {"takenOver": task.takenOver or task.currentStep == "submitting"}


def doubt_kept(view: View) -> Mapping[str, Any]:
    """What is broken off while it submits may have been submitted."""
    return {"submitAttempted": view.context.submitAttempted or "submitting" in view.before}


def hands_kept(view: View) -> Mapping[str, Any]:
    """What ends before a look at what a person did in the browser may have been submitted."""
    return {"submitAttempted": view.context.submitAttempted or view.context.takenOver}


def screenshot_kept(view: View) -> Mapping[str, Any]:
    """The last screenshot."""
    return {"screenshotUrl": view.payload.url}


def refill_counted(view: View) -> Mapping[str, Any]:
    """One more round over fields that did not read back."""
    return {"refills": view.context.refills + 1, "mismatches": view.event.data["mismatches"]}


def refills_given_up(view: View) -> Mapping[str, Any]:
    """The engine cannot fill these fields."""
    failure, failures = "FIELD_FILL_FAILED", view.context.engineFailures + 1
    given_up = {"failure": failure, "failureMessage": "", "engineFailures": failures, "refills": 0}
    return {**given_up, **_left_behind(view, failure)}


def retry_wait(view: View) -> timedelta:
    """How long an engine rests before it tries again: as work does by default."""
    return timedelta(milliseconds=delay(BACKOFF, view.context.engineFailures, view.seed))


def gates_judged(view: View) -> Mapping[str, Any]:
    """The result of the quality gates."""
    task = view.context
    resume_done = task.resumeUploaded or not task.uploadNeeded
    return {"gates": judge(task.fields, resume_uploaded=resume_done, captcha_present=task.captchaPresent)}


def answer_kept(view: View) -> Mapping[str, Any]:
    """The user's answer, to be filled in next."""
    answer = view.payload
    return {"corrections": {**view.context.corrections, answer.fieldName: answer.value}}


def edits_kept(view: View) -> Mapping[str, Any]:
    """The user's corrections, beside those from before."""
    return {"corrections": {**view.context.corrections, **view.payload.corrections}}


def field_skipped(view: View) -> Mapping[str, Any]:
    """The field nobody answered."""
    return {"skippedFields": [*view.context.skippedFields, view.context.fieldName]}


def slot_returned(view: View) -> model.Add | None:
    """A task that was dispatched no longer counts as running."""
    return None if view.context.status == "created" else add("running:{userId}", -1)


def status_kept(view: View) -> Mapping[str, Any]:
    """The status as the record has it."""
    return {"status": view.states[0]}


def phase_kept(view: View) -> Mapping[str, Any]:
    """The phase as the record has it; in a new one no engine has failed yet."""
    step = view.states[-1]
    return (
        {"currentStep": step}
        if step == view.context.currentStep
        else {"currentStep": step, "engineFailures": 0}
    )


def end_kept(view: View) -> Mapping[str, Any]:
    """When it ended."""
    return {"completedAt": time_text(view.now)}


def duration_kept(view: View) -> Mapping[str, Any]:
    """How long it took since a worker picked it up."""
    started = datetime.fromisoformat(view.context.startedAt)
    return {"durationSeconds": (view.now - started).total_seconds()}


def dispatched(view: View) -> Mapping[str, Any]:
    """What a worker needs to begin."""
    task = view.context
    wanted = {"jobUrl": task.jobUrl, "userId": task.userId, "resumeId": task.resumeId, "mode": task.mode}
    return {"taskId": view.instance, **wanted}


def withdrawn(view: View) -> Mapping[str, Any]:
    """Which task was cancelled."""
    return {"taskId": view.instance}


def status_change(view: View) -> Mapping[str, Any]:
    """The status before and now."""
    change = {"from": view.context.status, "to": view.states[0]}
    return {"taskId": view.instance, **change, "timestamp": time_text(view.now)}


def review_data(view: View) -> Mapping[str, Any]:
    """The filled fields, for review."""
    fields = [
        {"name": each.name, "value": each.value, "confidence": each.confidence, "source": each.source}
        for each in view.context.fields
    ]
    return {"taskId": view.instance, "fields": fields}


def success(view: View) -> Mapping[str, Any]:
    """The confirmation."""
    task = view.context
    return {
        "taskId": view.instance,
        "confirmationId": task.confirmationId,
        "screenshotUrl": task.screenshotUrl,
    }


def failure(view: View) -> Mapping[str, Any]:
    """The error."""
    task = view.context
    return {"taskId": view.instance, "errorCode": task.errorCode, "errorMessage": task.errorMessage}


def held(view: View) -> list[Mapping[str, Any]]:
    """What to release when a started task ends: its worker may hold a browser it has not reported yet."""
    task = view.context
    browser = {"profileId": task.profileId, "cdpUrl": task.cdpUrl}
    return [{"taskId": view.instance, **browser}] if task.startedAt else []


FORM_FORGOTTEN = put(
    pageIndex=0,
    fields=[],
    mismatches=[],
    refills=0,
    resumeUploaded=False,
    captchaPresent=False,
    gates={},
    pageState={},
    formLost=False,
)
"""The form is opened again and is empty: only the user's own answers are kept."""
UNIT_RETURNED = add("usage:{userId}", -1)
STATUS = (live("state_change", data=status_change), status_kept)
REVIEW = (live("field_review", data=review_data),)
END = (slot_returned, hands_kept, *STATUS, end_kept, spawn("applications.cleanup", held))
STARTED = log("checkpoint", "{subType: 'workflow_started'}")
DONE = log("checkpoint", "{subType: 'workflow_completed'}")
COMPLETED = (duration_kept, *END, live("completed", data=success), DONE)
ERROR = log("error", "{code: errorCode, message: errorMessage, retriable: errorRetriable}")
FAILED = (*END, live("error", data=failure), ERROR)


# Checkpoints: the six points from which an application can resume after a crash.


def reached(name: str, *fields: str, of: str = "") -> tuple[Any, ...]:
    """Store these fields of the record as a checkpoint of this task, and log it."""
    return record("checkpoint", f"{{instance}}:{name}{of}", *fields), log(
        "checkpoint", f"{{subType: '{name}'}}"
    )


BROWSER = keep("cdpUrl", "profileId", "liveViewUrl")
FORM = ("platform", "formFlow", "uploadNeeded")
PAGE = (keep("screenshotUrl", "captchaPresent"), fields_kept, put(refills=0))
CONFIRMATION = ("confirmationId", "confirmationPage", "screenshotUrl")

CONNECTED = reached("provisioned", "cdpUrl", "profileId", "tier", "engine")
PROVISIONED = (BROWSER, keep("engine"), *CONNECTED)
RESTARTED = (BROWSER, *CONNECTED)
ANALYZED = (form_kept, fields_kept, *reached("analyzed", *FORM, "fields"))
PAGE_FILLED = (*PAGE, *reached("page_filled", "pageIndex", "fields", "screenshotUrl", of=":{pageIndex}"))
UPLOADED = (put(resumeUploaded=True), keep("captchaPresent"), *reached("resume_uploaded", "resumeUploaded"))
SUBMITTED = (put(submitAttempted=True), *reached("submitted", "submitAttempted"))
VERIFIED = (keep(*CONFIRMATION), *reached("verified", *CONFIRMATION))
