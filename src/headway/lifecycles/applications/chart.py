"""The life of a job application: a status for the user, and phases of the work inside it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from headway import Ask, Final, History, State, Statechart, View, any_live
from headway.actions import add, live, put, topic
from headway.clock import time_text
from headway.lifecycles.applications import actions, guards, record, work
from headway.lifecycles.applications.actions import (
    ANALYZED,
    BROWSER,
    CONNECTED,
    FORM_FORGOTTEN,
    PAGE_FILLED,
    PROVISIONED,
    RESTARTED,
    SUBMITTED,
    UNIT_RETURNED,
    UPLOADED,
    VERIFIED,
    fails,
    fails_shown,
    keep,
    log,
)
from headway.lifecycles.applications.failures import LOST

WORKER = "worker"
USER = "{owner}"


def progress_shown(view: View) -> Mapping[str, Any]:
    """Where the phase that begins stands, and what the user reads; the first field is not known yet."""
    phase = Application.chart.nodes[view.states[-1]].model
    low, _ = phase.progress or (0, 0)
    text = phase.says.replace("{fieldName}", "...")
    return {"taskId": view.instance, "step": phase.id, "pct": low, "message": text}


def help_wanted(view: View) -> Mapping[str, Any]:
    """What the person needs who is asked."""
    task, ask = view.context, Application.chart.nodes[view.states[-1]].model.ask
    deadline = view.now + timedelta(milliseconds=(ask.deadline if ask else 0) or 0)
    seen = {"vncUrl": task.liveViewUrl, "screenshotUrl": task.screenshotUrl, "deadline": time_text(deadline)}
    reason = BEFORE_SUBMIT if view.in_state("reviewing") else task.currentStep
    return {"taskId": view.instance, "reason": reason, **seen}


def question_put(view: View) -> Mapping[str, Any]:
    """The same, with the field that nobody knows what to fill in."""
    asked = {"fieldName": view.context.fieldName, "fieldOptions": view.context.fieldOptions}
    return {**help_wanted(view), **asked}


BEFORE_SUBMIT = "review_before_submit"
PROGRESS = live("progress", data=progress_shown)
PHASE = (actions.phase_kept, PROGRESS)
TAKEOVER = log("human_takeover", "{reason: currentStep, interventionUrl: liveViewUrl}")
REVIEW = log("human_takeover", f"{{reason: '{BEFORE_SUBMIT}', interventionUrl: liveViewUrl}}")
CALL = live("human_needed", data=help_wanted)
HELP = (CALL, TAKEOVER)
VERIFYING = put(currentStep="verifying")
NOTES = keep("notes")
SEEN = ("screenshotUrl", "liveViewUrl")
FIELD = ("fieldName", "fieldOptions")
CAPTCHA = (
    keep("captchaType", "screenshotUrl"),
    actions.hands_noted,
    log("captcha_detected", "{type: captchaType}"),
)
SWITCHED = log(
    "engine_switch", "{from: previousEngine, to: engine, reason: switchReason, durationMs: switchMs}"
)
BY_HAND = put(takenOver=True)
NOT_BY_HAND = put(takenOver=False)
HANDED_OVER = keep("pageState", "screenshotUrl")
BROWSER_LOST = put(formLost=True, cdpUrl="", liveViewUrl="")
LOST_IN_DOUBT = (*SUBMITTED, BROWSER_LOST)
NO_ENGINE = (BROWSER, actions.engine_missing)


class Application(
    Statechart,
    version=1,
    name="applications.application",
    context=record.Task,
    facts=guards.FACTS,
    owner="{userId}",
    read_by=(USER, "admin", WORKER),
    cancel="cancel",
):
    """A job application, from the task's creation to the confirmed submission."""

    created = State(
        initial=True,
        meaning="The task exists and is valid.",
        waits_for="dispatch",
        entry=(actions.status_kept, add("usage:{userId}")),
    )
    queued = State(
        run=work.TAKE_TASK,
        meaning="Limits are checked; no worker has taken the task yet.",
        waits_for="a worker",
        entry=actions.STATUS,
    )

    provisioning = State(run=work.START_BROWSER, progress=(0, 10), says="Starting browser...", entry=PHASE)
    navigating = State(run=work.LOAD_PAGE, progress=(10, 15), says="Loading application page...", entry=PHASE)
    analyzing = State(run=work.ANALYZE_FORM, progress=(15, 25), says="Analyzing form fields...", entry=PHASE)

    filling_page = State(run=work.FILL_FIELDS, progress=(25, 65), says="Filling field: {fieldName}")
    uploading_files = State(run=work.UPLOAD_FILES, meaning="Files that this page asks for.")
    reading_back = State(run=work.READ_BACK, meaning="Every field is compared with what was filled in.")
    refilling = State(run=work.FILL_FIELDS, meaning="Only what did not read back.")
    finding_way = State(run=work.FIND_NAVIGATION, meaning="Next, submit, or neither?")
    clicking_next = State(run=work.CLICK_NEXT, meaning="One page further.")
    filled = Final(meaning="All pages are filled.")
    pages = (filling_page, uploading_files, reading_back, refilling, finding_way, clicking_next, filled)
    filling = State(
        *pages,
        progress=(25, 65),
        says="Filling field: {fieldName}",
        entry=PHASE,
        meaning="One page after the other.",
    )

    uploading = State(run=work.UPLOAD_RESUME, progress=(65, 75), says="Uploading resume...", entry=PHASE)
    quality_check = State(meaning="Five gates take the reviewer's place.", entry=actions.gates_judged)
    submitting = State(run=work.SUBMIT, progress=(80, 90), says="Submitting application...", entry=PHASE)
    verifying = State(run=work.VERIFY, progress=(90, 100), says="Verifying submission...", entry=PHASE)
    paused = History(deep=True, otherwise=navigating, meaning="The phase that was left for a while.")
    phases = (navigating, analyzing, filling, uploading, quality_check, submitting, verifying)
    applying = State(*phases, paused, meaning="The phases of the work at the form.")

    classifying = State(meaning="The kind of failure decides.")
    retrying = State(meaning="The same engine tries again.")
    capturing = State(run=work.CAPTURE_PAGE, meaning="Where the page stands is kept.")
    disconnecting = State(run=work.DISCONNECT_ENGINE, meaning="The engine lets go.")
    checking_browser = State(run=work.CHECK_BROWSER, meaning="Does the browser live?")
    connecting = State(run=work.CONNECT_ENGINE, meaning="The next engine takes over.")
    restoring = State(run=work.RESTORE_PAGE, meaning="The page is brought back.")
    checking_engine = State(
        run=work.CHECK_ENGINE, entry=actions.switch_timed, meaning="Does it see the page?"
    )
    switching = (capturing, disconnecting, checking_browser, connecting, restoring, checking_engine)
    handing_over = State(run=work.CAPTURE_PAGE, meaning="What a person needs who takes over.")
    engine_cascade = State(
        classifying,
        retrying,
        *switching,
        handing_over,
        meaning="dom, cua, vision; below premium one engine.",
    )

    restarting = State(run=work.START_BROWSER, meaning="A new browser takes the place of one that was lost.")
    reconnecting = State(run=work.CONNECT_ENGINE, meaning="The engine returns to the same browser.")
    clearing_captcha = State(run=work.CHECK_CAPTCHA, meaning="Is the captcha gone?")
    checking_submission = State(run=work.VERIFY, meaning="The person may have submitted.", entry=VERIFYING)
    last_look = State(run=work.VERIFY, meaning="The person may have submitted and left.", entry=VERIFYING)
    resuming = State(meaning="Where to after a detour?")
    detours = (engine_cascade, restarting, reconnecting, clearing_captcha, checking_submission, last_look)
    in_progress = State(
        provisioning, applying, *detours, resuming, meaning="A worker is at it.", entry=actions.STATUS
    )

    waiting_captcha = State(
        meaning="A captcha is to be solved.",
        ask=Ask(USER, deadline="120s", shows=(*SEEN, "captchaType"), delegate="anyone"),
        entry=(put(currentStep="captcha"), *HELP),
    )
    reviewing = State(
        meaning="The user looks at all fields before they are sent.",
        ask=Ask(USER, deadline="300s", shows=(*SEEN, "fields"), delegate="anyone"),
        progress=(75, 80),
        says="Waiting for your review...",
        entry=(*PHASE, *actions.REVIEW, CALL, REVIEW),
    )
    gate_review = State(
        meaning="The user decides, because a gate has failed.",
        ask=Ask(USER, deadline="120s", shows=(*SEEN, "fields", "gates"), delegate="anyone"),
        entry=(put(currentStep=BEFORE_SUBMIT), *actions.REVIEW, *HELP),
    )
    waiting_takeover = State(
        meaning="No engine gets on: the user works in the browser.",
        ask=Ask(USER, deadline="300s", shows=(*SEEN, "fields", "pageState"), delegate="anyone"),
        entry=(put(currentStep="engine_exhausted"), *HELP),
    )
    waiting_answer = State(
        meaning="The user's data do not say what a field wants.",
        ask=Ask(USER, form=record.Answer, deadline="120s", shows=FIELD, delegate="anyone"),
        entry=(put(currentStep="ambiguous_field"), live("human_needed", data=question_put), TAKEOVER),
    )
    waiting_security = State(
        meaning="The site wants to see the account's owner.",
        ask=Ask(USER, deadline="120s", shows=SEEN, delegate="anyone"),
        entry=(put(currentStep="security_challenge"), *HELP),
    )
    waits = (waiting_captcha, reviewing, gate_review, waiting_takeover, waiting_answer, waiting_security)
    waiting_human = State(*waits, meaning="Paused until a person has acted.", entry=actions.STATUS)

    completed = Final(
        meaning="Submitted, and confirmed by the site.",
        progress=(100, 100),
        says="Application submitted!",
        entry=(*actions.COMPLETED, PROGRESS),
    )
    failed = Final(meaning="Nothing is left to try; the user may create a new task.", entry=actions.FAILED)
    cancelled = Final(entry=actions.END, meaning="The user or an admin has called it off.")

    # T1 to T9: the status. P16 and P17 are T3 seen from a phase.
    dispatch = created.to(
        queued,
        by="system",
        when=(guards.on_a_server, guards.within_rate, guards.within_concurrency, guards.within_plan),
        do=add("running:{userId}"),
        emit=topic("task:created", data=actions.dispatched),
        meaning="T1",
    )
    pick_up = queued.on_done.to(in_progress, sets="startedAt", do=actions.STARTED, meaning="T2, P1")
    not_picked_up = queued.after("5m").to(failed, do=(fails("QUEUE_TIMEOUT"), UNIT_RETURNED))
    not_takeable = queued.on_error.to(failed, do=(actions.error_kept, UNIT_RETURNED))

    captcha_detected = applying.to(
        waiting_captcha,
        by=WORKER,
        takes=record.Captcha,
        when=guards.can_be_seen,
        do=CAPTCHA,
        meaning="T3, P16",
    )
    captcha_hit = (
        (applying | clearing_captcha | checking_submission)
        .on("error.work")
        .to(waiting_captcha, when=(guards.captcha_failed, guards.can_be_seen), do=CAPTCHA, meaning="T3, P16")
    )
    captcha_unseen = in_progress.on("error.work").to(
        failed,
        when=guards.captcha_failed,
        do=fails_shown("CAPTCHA_TIMEOUT", "A captcha is in the way, and nobody can see the browser."),
        meaning="T7",
    )
    security_challenged = applying.to(
        waiting_security,
        by=WORKER,
        takes=record.Challenge,
        when=guards.can_be_seen,
        do=(keep("screenshotUrl"), actions.hands_noted),
        meaning="T3",
    )
    field_ambiguous = filling.to(
        waiting_answer, by=WORKER, takes=record.Question, do=keep("fieldName", "fieldOptions"), meaning="T3"
    )

    captcha_solved = waiting_captcha.to(clearing_captcha, by=USER, takes=record.Solved, meaning="T4")
    security_resolved = waiting_security.to(resuming, by=USER, meaning="T4")
    field_answered = waiting_answer.to(
        paused,
        by=USER,
        takes=record.Answer,
        when=guards.the_one_asked,
        do=actions.answer_kept,
        meaning="T4",
    )
    human_resolved = (
        waiting_takeover.to(
            checking_submission,
            by=USER,
            takes=record.Resolution,
            do=(NOTES, BY_HAND),
            meaning="T4",
        )
        | waiting_captcha.to(clearing_captcha, by=USER, takes=record.Resolution, do=NOTES, meaning="T4")
        | waiting_security.to(resuming, by=USER, takes=record.Resolution, do=NOTES, meaning="T4")
    )
    captcha_cleared = clearing_captcha.on_done.to(
        resuming, when=guards.captcha_gone, do=put(captchaPresent=False)
    )
    captcha_still_there = clearing_captcha.on_done.to(waiting_captcha)
    submitted_by_hand = checking_submission.on_done.to(completed, when=guards.confirmed, do=VERIFIED)
    not_submitted_by_hand = checking_submission.on_done.to(resuming, do=NOT_BY_HAND)
    not_found_by_hand = checking_submission.on_error("VERIFICATION_FAILED").to(resuming, do=NOT_BY_HAND)

    captcha_timeout = waiting_captcha.on_deadline.to(failed, do=fails("CAPTCHA_TIMEOUT"), meaning="T5")
    review_timeout = reviewing.on_deadline.to(failed, do=fails("REVIEW_TIMEOUT"), meaning="T5")
    gate_timeout = gate_review.on_deadline.to(failed, do=fails("QUALITY_GATE_TIMEOUT"), meaning="T5")
    security_timeout = waiting_security.on_deadline.to(failed, do=fails("SECURITY_TIMEOUT"), meaning="T5")
    answer_timeout = waiting_answer.on_deadline.to(
        paused, do=(actions.field_skipped, log("warning", "{skipped: fieldName}"))
    )
    takeover_timeout = waiting_takeover.on_deadline.to(last_look)
    submitted_in_silence = last_look.on_done.to(completed, when=guards.confirmed, do=VERIFIED)
    human_timeout = last_look.on_done.to(failed, do=fails_shown("HUMAN_TIMEOUT"), meaning="T5")
    human_timeout_blind = last_look.on_error.to(failed, do=fails("HUMAN_TIMEOUT"), meaning="T5")

    cancel = any_live.to(
        cancelled,
        by=(USER, "admin"),
        do=(actions.doubt_kept, UNIT_RETURNED),
        emit=topic("task:cancelled", data=actions.withdrawn),
        meaning="T8",
    )
    overdue = any_live.after("30m").to(
        failed, do=(fails("WORKFLOW_TIMEOUT"), actions.doubt_kept, UNIT_RETURNED), meaning="T8"
    )
    budget_exceeded = in_progress.to(
        failed,
        by=(WORKER, "system"),
        takes=record.Spend,
        when=guards.over_budget,
        do=(fails("BUDGET_EXCEEDED"), actions.doubt_kept),
        meaning="T9",
    )

    # P2 to P15: the phases, and the pages inside filling.
    browser_started = provisioning.on_done.to(
        navigating, when=guards.browser_ready, do=PROVISIONED, meaning="P2"
    )
    page_loaded = navigating.on_done.to(
        analyzing, when=guards.page_settled, do=keep("platform"), meaning="P3"
    )
    wrong_page = navigating.on_done.to(failed, do=fails_shown("NAVIGATION_ERROR"))
    form_found = analyzing.on_done.to(filling, when=guards.has_fields, do=ANALYZED, meaning="P4")
    no_form = analyzing.on_done.to(failed, do=fails_shown("FORM_NOT_FOUND"))

    page_has_files = filling_page.on_done.to(
        uploading_files, when=guards.files_on_page, do=actions.fields_kept
    )
    page_filled = filling_page.on_done.to(reading_back, do=actions.fields_kept)
    resume_uploaded = uploading_files.on_done.to(reading_back, when=guards.resume_sent, do=UPLOADED)
    files_uploaded = uploading_files.on_done.to(reading_back, do=keep("captchaPresent"))
    fields_differ = reading_back.on_done.to(
        refilling, when=(guards.mismatched, guards.refills_left), do=actions.refill_counted
    )
    fields_stay_wrong = reading_back.on_done.to(
        classifying, when=guards.mismatched, do=actions.refills_given_up
    )
    page_checked = reading_back.on_done.to(finding_way, do=PAGE_FILLED)
    refilled = refilling.on_done.to(reading_back, do=actions.fields_kept)
    next_found = finding_way.on_done.to(clicking_next, when=guards.has_next)
    submit_found = finding_way.on_done.to(filled, when=guards.has_submit)
    no_way_on = finding_way.on_done.to(failed, do=fails_shown("NAVIGATION_ERROR"))
    next_page = clicking_next.on_done.to(navigating, do=actions.page_turned, meaning="P15")

    text_filled = filling.on_done.to(
        uploading, when=(guards.upload_due, guards.required_filled), meaning="P5"
    )
    text_missing = filling.on_done.to(
        uploading, when=guards.upload_due, meaning="a field nobody could fill is judged with the upload done"
    )
    filled_for_review = filling.on_done.to(reviewing, when=guards.copilot, meaning="P6")
    filled_for_gates = filling.on_done.to(quality_check)
    uploaded_for_review = uploading.on_done.to(
        reviewing, when=(guards.resume_sent, guards.copilot), do=UPLOADED, meaning="P7"
    )
    uploaded_for_gates = uploading.on_done.to(quality_check, when=guards.resume_sent, do=UPLOADED)
    not_uploaded = uploading.on_done.to(failed, do=fails_shown("UPLOAD_FAILED"))
    gates_pass = quality_check.always.to(submitting, when=guards.gates_passed, meaning="P8")
    gates_fail = quality_check.always.to(gate_review, meaning="T3: review_before_submit")
    review_approved = (reviewing | gate_review).to(submitting, by=USER, meaning="P9")
    review_edited = (reviewing | gate_review).to(
        navigating,
        by=USER,
        takes=record.Edit,
        when=guards.edits_earlier_page,
        do=(actions.edits_kept, FORM_FORGOTTEN),
        meaning="P10, from the first page on",
    ) | (reviewing | gate_review).to(
        filling, by=USER, takes=record.Edit, do=actions.edits_kept, meaning="P10"
    )
    accepted = submitting.on_done.to(verifying, do=SUBMITTED, meaning="P11")
    rejected = submitting.on_error("SUBMIT_VALIDATION_ERROR").to(
        navigating,
        when=(guards.fixes_left, guards.rejects_earlier_page),
        counts="fixes",
        do=(keep("validationErrors"), FORM_FORGOTTEN),
        meaning="P12, from the first page on",
    ) | submitting.on_error("SUBMIT_VALIDATION_ERROR").to(
        filling, when=guards.fixes_left, counts="fixes", do=keep("validationErrors"), meaning="P12"
    )
    unsure = submitting.on_error.to(verifying, when=guards.in_doubt, do=SUBMITTED)
    lost_unsure = submitting.on_error("BROWSER_CRASH", "cdp_disconnect").to(
        restarting, when=guards.restarts_left, do=LOST_IN_DOUBT, counts="restarts"
    )
    unplugged_unsure = submitting.on_error("CDP_DISCONNECT").to(
        reconnecting, when=guards.browser_unplugged, do=SUBMITTED, counts="reconnects"
    )
    lost_for_good = submitting.on_error(*LOST).to(failed, do=(*SUBMITTED, actions.error_kept), meaning="T7")
    never_twice = submitting.always.to(
        verifying, when="submitAttempted", meaning="never submitted twice, whatever led back here"
    )
    verified = verifying.on_done.to(completed, when=guards.confirmed, do=VERIFIED, meaning="T6, P13")
    unverified = verifying.on_done.to(failed, do=fails_shown("VERIFICATION_FAILED"), meaning="P14")

    # The engines (5.1), and a browser that is lost.
    engine_failed = applying.on("error.work").to(
        classifying, when=guards.engine_may_help, do=actions.failure_kept
    )
    retry_engine = classifying.always.to(retrying, when=guards.engine_may_retry)
    switch_engine = classifying.always.to(capturing, when=guards.engine_left)
    engines_exhausted = classifying.always.to(handing_over, when=guards.takeover_possible)
    left_to_submit = handing_over.on_done.to(
        waiting_takeover, when=guards.at_submission, do=(HANDED_OVER, *SUBMITTED), meaning="T3, P17"
    ) | handing_over.on_error.to(
        waiting_takeover, when=(guards.still_there, guards.at_submission), do=SUBMITTED, meaning="T3, P17"
    )
    handed_over = handing_over.on_done.to(waiting_takeover, do=HANDED_OVER, meaning="T3, P17")
    handed_over_blind = handing_over.on_error.to(waiting_takeover, when=guards.still_there, meaning="T3, P17")
    engines_given_up = classifying.always.to(failed, do=actions.failure_given_up, meaning="T7")
    engine_retried = retrying.after(actions.retry_wait).to(paused)
    captured = capturing.on_done.to(disconnecting, do=keep("pageState"))
    disconnected = disconnecting.on_done.to(checking_browser)
    browser_lives = checking_browser.on_done.to(
        connecting, when=guards.browser_alive, do=actions.engine_chosen
    )
    browser_dead = checking_browser.on_done.to(failed, do=fails_shown("BROWSER_CRASH"), meaning="T7")
    browser_mute = checking_browser.on_error.to(failed, do=fails("BROWSER_CRASH"), meaning="T7")
    connected = connecting.on_done.to(restoring)
    restored = restoring.on_done.to(checking_engine)
    engine_switched = checking_engine.on_done.to(resuming, do=(SWITCHED, *CONNECTED))
    engine_unfit = engine_cascade.on(
        "error.work.connecting", "error.work.restoring", "error.work.checking_engine"
    ).to(classifying, do=put(failure="ENGINE_CONNECT_FAILED", engineFailures=1), internal=True)
    engine_stuck = engine_cascade.on("error.work.capturing", "error.work.disconnecting").to(
        checking_browser, internal=True
    )
    engine_refused = (
        provisioning.on_error("ENGINE_CONNECT_FAILED").to(classifying, do=(BROWSER, actions.failure_kept))
        | restarting.on_error("ENGINE_CONNECT_FAILED").to(classifying, do=(BROWSER, actions.failure_kept))
        | reconnecting.on_error("ENGINE_CONNECT_FAILED").to(classifying, do=actions.failure_kept)
    )
    lost_by_hand = (
        (reconnecting | clearing_captcha | checking_submission | handing_over)
        .on("error.work")
        # What the person did in it cannot be seen any more.
        .to(restarting, when=("takenOver", guards.browser_gone), do=LOST_IN_DOUBT, counts="restarts")
    )
    browser_lost = (
        (applying | reconnecting | clearing_captcha | checking_submission | handing_over)
        .on("error.work")
        .to(restarting, when=guards.browser_gone, do=BROWSER_LOST, counts="restarts")
    )
    never_there = provisioning.on_error(*LOST).to(
        restarting, when=guards.restarts_left, counts="restarts"
    ) | restarting.on_error(*LOST).to(restarting, when=guards.restarts_left, counts="restarts")
    restarted = restarting.on_done.to(resuming, when=guards.browser_ready, do=RESTARTED)
    engine_missing = provisioning.on_done.to(
        classifying, when=guards.browser_there, do=NO_ENGINE
    ) | restarting.on_done.to(classifying, when=guards.browser_there, do=NO_ENGINE)
    not_started = provisioning.on_done.to(
        failed, do=fails_shown("BROWSER_START_FAILED")
    ) | restarting.on_done.to(failed, do=fails_shown("BROWSER_START_FAILED"))
    unplugged = (
        (applying | reconnecting | clearing_captcha | checking_submission)
        .on("error.work")
        .to(reconnecting, when=guards.browser_unplugged, counts="reconnects")
    )
    reconnected = reconnecting.on_done.to(resuming)
    look_first = resuming.always.to(checking_submission, when="takenOver", meaning="it may be submitted")
    only_verify = resuming.always.to(
        verifying, when=guards.lost_in_doubt, meaning="an empty form is not filled for nothing"
    )
    begin_anew = resuming.always.to(
        navigating, when=guards.form_lost, do=FORM_FORGOTTEN, meaning="a new browser shows an empty form"
    )
    go_on = resuming.always.to(paused)
    broken = in_progress.on("error.work").to(failed, do=actions.error_kept, meaning="T7")

    # What the work reports without ending (9.4).
    field_filled = filling.stay(by=WORKER, takes=record.FieldFilled, do=log("field_filled"))
    engine_operation = in_progress.stay(by=WORKER, takes=record.EngineOperation, do=log("engine_operation"))
    screenshot = in_progress.stay(
        by=WORKER, takes=record.Screenshot, do=(log("screenshot"), actions.screenshot_kept)
    )


class ApplicationCleanup(
    Statechart,
    version=1,
    name="applications.cleanup",
    context=record.Held,
    read_by=("admin", WORKER),  # the context has the address of a user's browser
):
    """The browser of an application that has ended, until it is released: cleanup always runs."""

    releasing = State(
        initial=True,
        run=work.RELEASE_BROWSER,
        meaning="The session is kept, browser and profile are given back.",
    )
    released = Final(meaning="Nothing is held any more.")
    leaked = Final(meaning="Released by the pool when the profile's lease ends.")

    release = releasing.on_done.to(released)
    give_up = releasing.on_error.to(leaked)
