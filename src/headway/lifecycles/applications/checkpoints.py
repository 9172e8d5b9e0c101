"""The six points from which an application can go on after a crash."""

from __future__ import annotations

from typing import Any

from headway.actions import put, record
from headway.lifecycles.applications.actions import fields_kept, keep, log


def reached(name: str, *fields: str) -> tuple[Any, ...]:
    """Store these fields of the record as a checkpoint, and log it."""
    return record("checkpoint", name, *fields), log("checkpoint", f"{{subType: '{name}'}}")


BROWSER = keep("cdpUrl", "profileId", "engine", "liveViewUrl")
FORM = ("platform", "formFlow", "uploadNeeded")
PAGE = (keep("screenshotUrl", "captchaPresent"), fields_kept, put(refills=0))
CONFIRMATION = ("confirmationId", "confirmationPage", "screenshotUrl")

PROVISIONED = (BROWSER, *reached("provisioned", "cdpUrl", "profileId", "tier", "engine"))
ANALYZED = (keep(*FORM), fields_kept, *reached("analyzed", *FORM, "fields"))
PAGE_FILLED = (*PAGE, *reached("page_filled", "pageIndex", "fields", "screenshotUrl"))
UPLOADED = (put(resumeUploaded=True), keep("captchaPresent"), *reached("resume_uploaded", "resumeUploaded"))
SUBMITTED = (put(submitAttempted=True), *reached("submitted", "submitAttempted"))
VERIFIED = (keep(*CONFIRMATION), *reached("verified", *CONFIRMATION))
