DROP FUNCTION start_over();
DROP TABLE counter, record, idempotency, outbox, ask, work, timer, history, instance, chart_version;
