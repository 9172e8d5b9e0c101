"""The work of an application: which handler runs, how long it may take, and how it can fail."""

from __future__ import annotations

from headway import Retry, Run
from headway.lifecycles.applications.failures import DEFAULT, FOR_SUBMISSION, RETRIES, SIGNALS


def _browser(
    handler: str,
    timeout: str,
    *codes: str,
    timeout_code: str = "timeout",
    retry: tuple[Retry, ...] = RETRIES,
) -> Run:
    """Work on the task's browser, done where the browser is."""
    errors = tuple(dict.fromkeys(("BROWSER_CRASH", "CDP_DISCONNECT", timeout_code, *codes)))
    return Run(
        handler,
        timeout=timeout,
        timeout_code=timeout_code,
        retry=retry,
        errors=errors,
        affinity="browser:{instance}",
    )


STARTS = ("BROWSER_START_FAILED", "ENGINE_CONNECT_FAILED", "PROFILE_LOCKED", "PROXY_BLOCKED")
LOADS = ("NAVIGATION_TIMEOUT", "NAVIGATION_ERROR", "RATE_LIMITED", "PROXY_BLOCKED", "SESSION_EXPIRED")

TAKE_TASK = Run("take_task", concurrency="user:{userId}", retry=DEFAULT)
START_BROWSER = _browser("start_browser", "60s", *STARTS, timeout_code="BROWSER_START_FAILED")
LOAD_PAGE = _browser(
    "load_page", "30s", *SIGNALS, *LOADS, "ANTI_BOT_DETECTED", timeout_code="NAVIGATION_TIMEOUT"
)
ANALYZE_FORM = _browser("analyze_form", "30s", *SIGNALS, "FORM_NOT_FOUND")
FILL_FIELDS = _browser("fill_fields", "120s", *SIGNALS, "FIELD_FILL_FAILED", "SESSION_EXPIRED")
UPLOAD_FILES = _browser("upload_files", "120s", *SIGNALS, "UPLOAD_FAILED", timeout_code="UPLOAD_FAILED")
READ_BACK = _browser("read_back", "120s")
FIND_NAVIGATION = _browser("find_navigation", "30s")
CLICK_NEXT = _browser("click_next", "30s", *SIGNALS, "NAVIGATION_ERROR", timeout_code="NAVIGATION_ERROR")
UPLOAD_RESUME = _browser("upload_resume", "120s", *SIGNALS, "UPLOAD_FAILED", timeout_code="UPLOAD_FAILED")
CHECK_CAPTCHA = _browser("check_captcha", "180s", timeout_code="CAPTCHA_TIMEOUT")
SUBMIT = _browser(
    "submit",
    "300s",
    *SIGNALS,
    "SUBMIT_VALIDATION_ERROR",
    "SUBMIT_FAILED",
    "lost",
    timeout_code="unsure",
    retry=(FOR_SUBMISSION,),  # whatever else happens may have happened after the click
)
VERIFY = _browser("verify", "30s", "VERIFICATION_FAILED", timeout_code="VERIFICATION_FAILED")
RELEASE_BROWSER = Run("release_browser", timeout="30s", retry=DEFAULT, affinity="browser:{taskId}")

CAPTURE_PAGE = _browser("capture_page_state", "30s")
DISCONNECT_ENGINE = _browser("disconnect_engine", "30s")
CHECK_BROWSER = _browser("check_browser", "30s")
CONNECT_ENGINE = _browser(
    "connect_engine", "30s", "ENGINE_CONNECT_FAILED", timeout_code="ENGINE_CONNECT_FAILED"
)
RESTORE_PAGE = _browser("restore_page_state", "30s")
CHECK_ENGINE = _browser("check_engine", "30s")
