-- Work and timers say which version of which chart their instance has: a node takes only what it knows.
ALTER TABLE timer ADD COLUMN chart text COLLATE "C" NOT NULL DEFAULT '', ADD COLUMN version bigint NOT NULL DEFAULT 0;
UPDATE timer SET chart = instance.chart, version = instance.version FROM instance
WHERE instance.tenant = timer.tenant AND instance.id = timer.instance;
ALTER TABLE timer ALTER COLUMN chart DROP DEFAULT, ALTER COLUMN version DROP DEFAULT;
DROP INDEX timer_by_due;
CREATE INDEX timer_by_due ON timer (chart, version, due, tenant, id) WHERE due IS NOT NULL;

ALTER TABLE work ADD COLUMN chart text COLLATE "C" NOT NULL DEFAULT '', ADD COLUMN version bigint NOT NULL DEFAULT 0;
UPDATE work SET chart = instance.chart, version = instance.version FROM instance
WHERE instance.tenant = work.tenant AND instance.id = work.instance;
ALTER TABLE work ALTER COLUMN chart DROP DEFAULT, ALTER COLUMN version DROP DEFAULT;
DROP INDEX work_waiting;
ALTER TABLE work DROP COLUMN slot;
ALTER TABLE work ADD COLUMN slot text COLLATE "C" NOT NULL GENERATED ALWAYS AS (
    version::text || ' ' || quote_nullable(chart) || ' ' || CASE WHEN affinity IS NULL AND concurrency IS NULL AND rate IS NULL THEN '' ELSE md5(
            quote_nullable(affinity) || ' ' || quote_nullable(concurrency) || ' ' || at_once::text
            || ' ' || quote_nullable(rate) || ' ' || rate_most::text || ' ' || rate_per::text
        ) END
) STORED;
CREATE INDEX work_waiting ON work (queue, priority, tenant, slot, due, id) WHERE worker IS NULL;

DROP TYPE timer_given;
CREATE TYPE timer_given AS (tenant text, id text, instance text, chart text, version bigint, event text, due timestamptz);
DROP TYPE work_given;
CREATE TYPE work_given AS (
    tenant text, id text, instance text, chart text, version bigint, state text, handler text, queue text, priority bigint, attempt bigint,
    due timestamptz, timeout bigint, heartbeat bigint, lease bigint, affinity text, concurrency text,
    at_once bigint, rate text, rate_most bigint, rate_per bigint, worker text, leased_until timestamptz,
    started_at timestamptz, checkpoint text, trace text
);
CREATE TYPE work_version AS (tenant text, id text, version bigint);
CREATE TYPE chart_version_given AS (chart text, version bigint);

-- Nodes that run, with the versions that each knows, as JSON.
CREATE TABLE node (
    name     text COLLATE "C" PRIMARY KEY,
    versions text NOT NULL,
    until    timestamptz NOT NULL
);

-- What a unit has seen is named, too: VACUUM FULL may put a row where another one was seen.
DROP TYPE version_seen;
CREATE TYPE instance_seen AS (place tid, seen xid, tenant text, id text);
CREATE TYPE counter_seen AS (place tid, seen xid, tenant text, key text);
CREATE TYPE record_seen AS (place tid, seen xid, tenant text, kind text, key text);
DROP TYPE instance_change;
CREATE TYPE instance_change AS (
    place tid, seen xid, tenant text, id text, chart text, version bigint, seq bigint, status text, ended boolean,
    owner text, updated_at timestamptz, journal text, snapshot text, seal text
);
