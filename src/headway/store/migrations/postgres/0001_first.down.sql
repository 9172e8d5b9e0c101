DROP FUNCTION start_over();
DROP TYPE
    key_given, record_key_given, version_seen, instance_given, instance_change, history_given, timer_given,
    work_given, ask_given, ask_change, audience_given, message_given, request_given, record_given, counter_given,
    attempt_given, letter_given, chart_given;
DROP TABLE
    counter, record, idempotency, pace, lease, letter, consumer, forgotten, outbox, ask_audience, ask, work, timer,
    history, instance, chart_version;
DROP FUNCTION mark_heads();
