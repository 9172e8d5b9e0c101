"""What transitions of an application write down and tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from headway import View
from headway.actions import live, put, record, spawn
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


def reached(name: str, *fields: str) -> tuple[Any, ...]:
    """Store the point from which the task can go on after a crash."""
    return record("checkpoint", name, *fields), log("checkpoint", f"{{subType: '{name}'}}")


def checkpoint(name: str, *fields: str) -> tuple[Any, ...]:
    """Keep what the work found out, also as the point from which the task can go on after a crash."""
    return keep(*fields), *reached(name, *fields)


def log(kind: str, data: str = "_event.data") -> model.Log:
    """A line of the task's event log."""
    return model.Log(label=kind, expr=data)


def fails(code: str) -> model.Put:
    """The error of a failure that the chart itself finds."""
    return put(errorCode=code, errorMessage=ALL[code].message)


def error_kept(view: View) -> Mapping[str, Any]:
    """The error of work that failed for good."""
    return _error(code_of(view.event.data["code"]), view.event.data.get("message"))


def failure_kept(view: View) -> Mapping[str, Any]:
    """What went wrong, for the choice of an engine."""
    data = view.event.data
    failures = view.context.engineFailures + 1
    return {"failure": data["code"], "failureMessage": data.get("message", ""), "engineFailures": failures}


def failure_given_up(view: View) -> Mapping[str, Any]:
    """The error that no engine could get past."""
    return _error(code_of(view.context.failure), view.context.failureMessage)


def _error(code: str, message: object) -> Mapping[str, Any]:
    known = ALL.get(code)
    return {"errorCode": code, "errorMessage": str(message or (known.message if known else code))}


def engine_chosen(view: View) -> Mapping[str, Any]:
    """The next engine, with a clean slate."""
    task = view.context
    engine = next_engine(task.engine, task.failure)
    return {"previousEngine": task.engine, "engine": engine, "engineFailures": 0}


def switch_timed(view: View) -> Mapping[str, Any]:
    """How long the switch took."""
    return {"switchMs": round((view.now - view.since["engine_cascade"]).total_seconds() * 1000)}


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
    """What is to be released: one browser, if there is one."""
    task = view.context
    return [{"profileId": task.profileId, "cdpUrl": task.cdpUrl}] if task.profileId else []


STATUS = (live("state_change", data=status_change), status_kept)
REVIEW = (live("field_review", data=review_data),)
END = (*STATUS, end_kept, spawn("applications.cleanup", held))
COMPLETED = (duration_kept, *END, live("completed", data=success))
ERROR = log("error", "{code: errorCode, message: errorMessage}")
FAILED = (*END, live("error", data=failure), ERROR)
