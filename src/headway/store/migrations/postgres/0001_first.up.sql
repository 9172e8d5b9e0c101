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
    no         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
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
    UNIQUE (tenant, id)
) WITH (fillfactor = 70);
CREATE INDEX instance_by_status ON instance (tenant, chart, status, no);
CREATE INDEX instance_by_parent ON instance (tenant, parent, no) WHERE parent IS NOT NULL;

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
    data       text,
    UNIQUE (tenant, instance, seq, row)
);

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
CREATE INDEX work_to_claim ON work (queue, priority DESC, due, tenant, id) WHERE worker IS NULL;
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
    at       timestamptz NOT NULL,
    UNIQUE (tenant, id)
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

-- Ends a statement that has found a row changed since it was read; the store reads again.
CREATE FUNCTION start_over() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a row has changed since it was read' USING ERRCODE = 'serialization_failure';
END $$;
