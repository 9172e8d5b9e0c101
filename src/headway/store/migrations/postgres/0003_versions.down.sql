DROP TYPE instance_change;
CREATE TYPE instance_change AS (
    place tid, seen xid, chart text, version bigint, seq bigint, status text, ended boolean, owner text,
    updated_at timestamptz, journal text, snapshot text, seal text
);
DROP TYPE record_seen;
DROP TYPE counter_seen;
DROP TYPE instance_seen;
CREATE TYPE version_seen AS (place tid, seen xid);
DROP TABLE node;
DROP TYPE chart_version_given;
DROP TYPE work_version;
DROP TYPE work_given;
CREATE TYPE work_given AS (
    tenant text, id text, instance text, state text, handler text, queue text, priority bigint, attempt bigint,
    due timestamptz, timeout bigint, heartbeat bigint, lease bigint, affinity text, concurrency text,
    at_once bigint, rate text, rate_most bigint, rate_per bigint, worker text, leased_until timestamptz,
    started_at timestamptz, checkpoint text, trace text
);
DROP TYPE timer_given;
CREATE TYPE timer_given AS (tenant text, id text, instance text, event text, due timestamptz);
DROP INDEX work_waiting;
ALTER TABLE work DROP COLUMN slot;
ALTER TABLE work DROP COLUMN version, DROP COLUMN chart;
ALTER TABLE work ADD COLUMN slot text COLLATE "C" NOT NULL GENERATED ALWAYS AS (
    CASE WHEN affinity IS NULL AND concurrency IS NULL AND rate IS NULL THEN '' ELSE md5(
            quote_nullable(affinity) || ' ' || quote_nullable(concurrency) || ' ' || at_once::text
            || ' ' || quote_nullable(rate) || ' ' || rate_most::text || ' ' || rate_per::text
        ) END
) STORED;
CREATE INDEX work_waiting ON work (queue, priority, tenant, slot, due, id) WHERE worker IS NULL;
DROP INDEX timer_by_due;
ALTER TABLE timer DROP COLUMN version, DROP COLUMN chart;
CREATE INDEX timer_by_due ON timer (due, tenant, id) WHERE due IS NOT NULL;
