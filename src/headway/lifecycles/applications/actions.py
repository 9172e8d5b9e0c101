"""What transitions of an application write down and tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from functools import cache
from typing import Any

from headway import View
from headway.actions import live, put, spawn
from headway.lifecycles.applications.error_codes import ALL
from headway.lifecycles.applications.quality import judge
from headway.lifecycles.applications.signals import code_of, next_engine
from headway.statechart import model

Action = Callable[[View], Mapping[str, Any]]


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


def fails(code: str) -> model.Put:
    """The error of a failure that the chart itself finds."""
    known = ALL[code]
    return put(errorCode=code, errorMessage=known.message, errorRetriable=known.retriable)


def error_kept(view: View) -> Mapping[str, Any]:
    """The error of work that failed for good, with the screenshot of it that the work has sent."""
    data = view.event.data
    return {**_error(code_of(data["code"]), data.get("message")), **_screenshot(data)}


def failure_kept(view: View) -> Mapping[str, Any]:
    """What went wrong, for the choice of an engine."""
    data = view.event.data
    failures = view.context.engineFailures + 1
    kept = {"failure": data["code"], "failureMessage": data.get("message", ""), "engineFailures": failures}
    return {**kept, **_screenshot(data)}


def _screenshot(data: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"screenshotUrl": data["screenshotUrl"]} if "screenshotUrl" in data else {}


def failure_given_up(view: View) -> Mapping[str, Any]:
    """The error that no engine could get past."""
    return _error(code_of(view.context.failure), view.context.failureMessage)


def _error(code: str, message: object) -> Mapping[str, Any]:
    known = ALL.get(code)
    told = str(message or (known.message if known else code))
    return {"errorCode": code, "errorMessage": told, "errorRetriable": known.retriable if known else None}


def engine_chosen(view: View) -> Mapping[str, Any]:
    """The next engine, with a clean slate."""
    task = view.context
    engine = next_engine(task.engine, task.failure)
    return {"previousEngine": task.engine, "engine": engine, "engineFailures": 0}


def switch_timed(view: View) -> Mapping[str, Any]:
    """How long the switch took."""
    return {"switchMs": round((view.now - view.since["engine_cascade"]).total_seconds() * 1000)}


def fields_kept(view: View) -> Mapping[str, Any]:
    """What the work says of fields, by their names: those of earlier pages stay."""
    known = {each.name: asdict(each) for each in view.context.fields}
    found = {each["name"]: each for each in (view.event.data or {}).get("fields", ())}
    return {"fields": [*{**known, **found}.values()]}


def page_turned(view: View) -> Mapping[str, Any]:
    """One page further."""
    return {"pageIndex": view.context.pageIndex + 1}


def screenshot_kept(view: View) -> Mapping[str, Any]:
    """The last screenshot."""
    return {"screenshotUrl": view.payload.url}


def refill_counted(view: View) -> Mapping[str, Any]:
    """One more round over fields that did not read back."""
    return {"refills": view.context.refills + 1, "mismatches": view.event.data["mismatches"]}


def refills_given_up(view: View) -> Mapping[str, Any]:
    """The engine cannot fill these fields."""
    failures = view.context.engineFailures + 1
    return {"failure": "FIELD_FILL_FAILED", "failureMessage": "", "engineFailures": failures, "refills": 0}


def gates_judged(view: View) -> Mapping[str, Any]:
    """The result of the quality gates."""
    task = view.context
    resume_done = task.resumeUploaded or not task.uploadNeeded
    return {"gates": judge(task.fields, resume_uploaded=resume_done, captcha_present=task.captchaPresent)}


def answer_kept(view: View) -> Mapping[str, Any]:
    """The user's answer, to be filled in next."""
    answer = view.payload
    return {"corrections": {**view.context.corrections, answer.fieldName: answer.value}}


def field_skipped(view: View) -> Mapping[str, Any]:
    """The field nobody answered."""
    return {"skippedFields": [*view.context.skippedFields, view.context.fieldName]}


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
    return {"completedAt": view.now.isoformat()}


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
    return {"taskId": view.instance, **change, "timestamp": view.now.isoformat()}


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
    """What is to be released once a worker has begun: it may hold a browser that it has not told of yet."""
    task = view.context
    browser = {"profileId": task.profileId, "cdpUrl": task.cdpUrl}
    return [{"taskId": view.instance, **browser}] if task.startedAt else []


STATUS = (live("state_change", data=status_change), status_kept)
REVIEW = (live("field_review", data=review_data),)
END = (*STATUS, end_kept, spawn("applications.cleanup", held))
STARTED = log("checkpoint", "{subType: 'workflow_started'}")
DONE = log("checkpoint", "{subType: 'workflow_completed'}")
COMPLETED = (duration_kept, *END, live("completed", data=success), DONE)
ERROR = log("error", "{code: errorCode, message: errorMessage, retriable: errorRetriable}")
FAILED = (*END, live("error", data=failure), ERROR)
