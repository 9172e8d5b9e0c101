"""The six points from which an application can go on after a crash."""

from __future__ import annotations

from typing import Any

from headway.actions import put, record
from headway.lifecycles.applications.actions import fields_kept, form_kept, keep, log


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
