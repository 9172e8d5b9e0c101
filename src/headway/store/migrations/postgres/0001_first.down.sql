DROP FUNCTION start_over();
DROP TYPE
    key_given, record_key_given, version_seen, instance_given, instance_change, history_given, timer_given,
    work_given, ask_given, message_given, request_given, record_given, counter_given, lease_given;
DROP TABLE counter, record, idempotency, outbox, ask, work, timer, history, instance, chart_version;
