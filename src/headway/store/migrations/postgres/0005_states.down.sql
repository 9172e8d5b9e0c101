DELETE FROM outbox WHERE kind = 'pruned';
DROP INDEX outbox_live;
DROP INDEX outbox_live_by_instance;
CREATE INDEX outbox_live ON outbox (stamp, position) WHERE kind = 'live';
CREATE INDEX outbox_live_by_instance ON outbox (tenant, instance, stamp, position)
    WHERE kind = 'live' AND instance IS NOT NULL;
DROP TYPE history_given;
CREATE TYPE history_given AS (
    tenant text, instance text, seq bigint, "row" bigint, at timestamptz, event text, transition text, before text,
    after text, actor text, reason text, attempt bigint, data text, version bigint, note text, hash text
);
DROP TYPE instance_change;
CREATE TYPE instance_change AS (
    place tid, seen xid, tenant text, id text, chart text, version bigint, seq bigint, status text, ended boolean,
    owner text, updated_at timestamptz, journal text, snapshot text, seal text
);
DROP TYPE instance_given;
CREATE TYPE instance_given AS (
    tenant text, id text, chart text, version bigint, seq bigint, status text, ended boolean, parent text, owner text,
    created_at timestamptz, updated_at timestamptz, journal text, snapshot text, seal text
);
ALTER TABLE history DROP COLUMN since;
CREATE INDEX instance_live ON instance (tenant, no) WHERE NOT ended;
DROP INDEX instance_ended_by_states;
DROP INDEX instance_by_states;
ALTER TABLE instance DROP COLUMN since, DROP COLUMN states;
