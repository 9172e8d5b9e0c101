-- Keys compare byte by byte (COLLATE "C"): quicker, and in the same order on every server.

CREATE TABLE chart_version (
    chart     text COLLATE "C" NOT NULL,
    version   bigint NOT NULL,
    hash      text NOT NULL,
    document  text NOT NULL,
    stored_at timestamptz NOT NULL,
    PRIMARY KEY (chart, version)
);

-- Room on each page keeps the next version of a row beside the last one.
CREATE TABLE instance (
    no         bigint GENERATED ALWAYS AS IDENTITY,
    tenant     text COLLATE "C" NOT NULL,
    id         text COLLATE "C" NOT NULL,
    chart      text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    seq        bigint NOT NULL,
    status     text COLLATE "C" NOT NULL,
    ended      boolean NOT NULL,
    parent     text COLLATE "C",
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    snapshot   text NOT NULL,
    PRIMARY KEY (tenant, no),
    UNIQUE (tenant, id)
) WITH (fillfactor = 70);
CREATE INDEX instance_by_status ON instance (tenant, chart, status, no);
CREATE INDEX instance_by_parent ON instance (tenant, parent, no) WHERE parent IS NOT NULL;
CREATE INDEX instance_live ON instance (tenant, no) WHERE NOT ended;

CREATE TABLE history (
    position   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    instance   text COLLATE "C" NOT NULL,
    seq        bigint NOT NULL,
    row        bigint NOT NULL,
    at         timestamptz NOT NULL,
    event      text NOT NULL,
    transition text NOT NULL,
    before     text NOT NULL,
    after      text NOT NULL,
    actor      text NOT NULL,
    reason     text,
    attempt    bigint NOT NULL,
    data       text
);
CREATE INDEX history_by_instance ON history (tenant, instance, position);

CREATE TABLE timer (
    tenant   text COLLATE "C" NOT NULL,
    id       text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL,
    event    text NOT NULL,
    due      timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX timer_by_due ON timer (due, tenant, id);

CREATE TABLE work (
    tenant       text COLLATE "C" NOT NULL,
    id           text COLLATE "C" NOT NULL,
    instance     text COLLATE "C" NOT NULL,
    state        text NOT NULL,
    handler      text COLLATE "C" NOT NULL,
    queue        text COLLATE "C" NOT NULL,
    priority     bigint NOT NULL,
    attempt      bigint NOT NULL,
    due          timestamptz NOT NULL,
    timeout      bigint,
    heartbeat    bigint NOT NULL,
    lease        bigint NOT NULL,
    affinity     text,
    concurrency  text,
    worker       text COLLATE "C",
    leased_until timestamptz,
    started_at   timestamptz,
    checkpoint   text,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX work_waiting ON work (queue, priority, tenant, due, id) WHERE worker IS NULL;
CREATE INDEX work_leased ON work (leased_until, tenant, id) WHERE worker IS NOT NULL;

CREATE TABLE ask (
    tenant        text COLLATE "C" NOT NULL,
    id            text COLLATE "C" NOT NULL,
    instance      text COLLATE "C" NOT NULL,
    state         text NOT NULL,
    roles         text NOT NULL,
    answers       text NOT NULL,
    form          text,
    shows         text NOT NULL,
    opened_at     timestamptz NOT NULL,
    deadline      timestamptz,
    claimed_by    text,
    claimed_until timestamptz,
    delegated_to  text,
    closed_at     timestamptz,
    closed_by     text,
    closed_event  text,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX ask_open ON ask (tenant, opened_at, id) WHERE closed_at IS NULL;

CREATE TABLE outbox (
    position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant   text COLLATE "C" NOT NULL,
    id       text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL,
    kind     text NOT NULL,
    name     text NOT NULL,
    data     text,
    at       timestamptz NOT NULL
);

CREATE TABLE idempotency (
    tenant     text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    body       text NOT NULL,
    answer     text NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX idempotency_by_expiry ON idempotency (expires_at);

CREATE TABLE record (
    tenant     text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    data       text NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, kind, key)
);

CREATE TABLE counter (
    tenant text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    value  bigint NOT NULL,
    PRIMARY KEY (tenant, key)
);

-- What the store sends, a list of each in one parameter. They are not the types of the tables, so that a
-- later column does not stop a node that does not know it yet.
CREATE TYPE key_given AS (tenant text, key text);
CREATE TYPE record_key_given AS (tenant text, kind text, key text);
CREATE TYPE version_seen AS (place tid, seen xid);
CREATE TYPE instance_given AS (
    tenant text, id text, chart text, version bigint, seq bigint, status text, ended boolean, parent text,
    created_at timestamptz, updated_at timestamptz, snapshot text
);
CREATE TYPE instance_change AS (
    place tid, seen xid, chart text, version bigint, seq bigint, status text, ended boolean, updated_at timestamptz,
    snapshot text
);
CREATE TYPE history_given AS (
    tenant text, instance text, seq bigint, "row" bigint, at timestamptz, event text, transition text, before text,
    after text, actor text, reason text, attempt bigint, data text
);
CREATE TYPE timer_given AS (tenant text, id text, instance text, event text, due timestamptz);
CREATE TYPE work_given AS (
    tenant text, id text, instance text, state text, handler text, queue text, priority bigint, attempt bigint,
    due timestamptz, timeout bigint, heartbeat bigint, lease bigint, affinity text, concurrency text, worker text,
    leased_until timestamptz, started_at timestamptz, checkpoint text
);
CREATE TYPE ask_given AS (
    tenant text, id text, instance text, state text, roles text, answers text, form text, shows text,
    opened_at timestamptz, deadline timestamptz, claimed_by text, claimed_until timestamptz, delegated_to text,
    closed_at timestamptz, closed_by text, closed_event text
);
CREATE TYPE message_given AS (
    tenant text, id text, instance text, kind text, name text, data text, at timestamptz
);
CREATE TYPE request_given AS (tenant text, key text, body text, answer text, expires_at timestamptz);
CREATE TYPE record_given AS (tenant text, kind text, key text, data text, updated_at timestamptz);
CREATE TYPE counter_given AS (tenant text, key text, value bigint);
CREATE TYPE lease_given AS (tenant text, id text, attempt bigint);

-- Ends a statement that has found a row changed since it was read; the store reads again.
CREATE FUNCTION start_over() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a row has changed since it was read' USING ERRCODE = 'serialization_failure';
END $$;
