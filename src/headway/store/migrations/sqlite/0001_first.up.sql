-- Times are microseconds since the epoch (UTC). What each table is for: docs/reference/database.md.

CREATE TABLE chart_version (
    chart     TEXT NOT NULL,
    version   INTEGER NOT NULL,
    hash      TEXT NOT NULL,
    document  TEXT NOT NULL,
    stored_at INTEGER NOT NULL,
    PRIMARY KEY (chart, version)
) STRICT;

-- `no` is the order of creation, and the last column of every index of this table.
CREATE TABLE instance (
    no         INTEGER PRIMARY KEY,
    tenant     TEXT NOT NULL,
    id         TEXT NOT NULL,
    chart      TEXT NOT NULL,
    version    INTEGER NOT NULL,
    seq        INTEGER NOT NULL,
    status     TEXT NOT NULL,
    ended      INTEGER NOT NULL CHECK (ended IN (0, 1)),
    parent     TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    snapshot   TEXT NOT NULL,
    UNIQUE (tenant, id)
) STRICT;
CREATE INDEX instance_by_tenant ON instance (tenant);
CREATE INDEX instance_by_status ON instance (tenant, chart, status);
CREATE INDEX instance_by_parent ON instance (tenant, parent) WHERE parent IS NOT NULL;
CREATE INDEX instance_live ON instance (tenant) WHERE ended = 0;

-- AUTOINCREMENT: who follows the positions must never see one that was used before.
CREATE TABLE history (
    position   INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant     TEXT NOT NULL,
    instance   TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    row        INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    event      TEXT NOT NULL,
    transition TEXT NOT NULL,
    before     TEXT NOT NULL,
    after      TEXT NOT NULL,
    actor      TEXT NOT NULL,
    reason     TEXT,
    attempt    INTEGER NOT NULL,
    data       TEXT
) STRICT;
CREATE INDEX history_by_instance ON history (tenant, instance);

CREATE TABLE timer (
    tenant   TEXT NOT NULL,
    id       TEXT NOT NULL,
    instance TEXT NOT NULL,
    event    TEXT NOT NULL,
    due      INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX timer_by_due ON timer (due, tenant, id);

-- Waiting work has no worker; leased work has one, and a time at which the lease ends.
CREATE TABLE work (
    tenant       TEXT NOT NULL,
    id           TEXT NOT NULL,
    instance     TEXT NOT NULL,
    state        TEXT NOT NULL,
    handler      TEXT NOT NULL,
    queue        TEXT NOT NULL,
    priority     INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    due          INTEGER NOT NULL,
    timeout      INTEGER,
    heartbeat    INTEGER NOT NULL,
    lease        INTEGER NOT NULL,
    affinity     TEXT,
    concurrency  TEXT,
    worker       TEXT,
    leased_until INTEGER,
    started_at   INTEGER,
    checkpoint   TEXT,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX work_waiting ON work (queue, priority, tenant, due, id) WHERE worker IS NULL;
CREATE INDEX work_leased ON work (leased_until, tenant, id) WHERE worker IS NOT NULL;

CREATE TABLE ask (
    tenant        TEXT NOT NULL,
    id            TEXT NOT NULL,
    instance      TEXT NOT NULL,
    state         TEXT NOT NULL,
    roles         TEXT NOT NULL,
    answers       TEXT NOT NULL,
    form          TEXT,
    shows         TEXT NOT NULL,
    opened_at     INTEGER NOT NULL,
    deadline      INTEGER,
    claimed_by    TEXT,
    claimed_until INTEGER,
    delegated_to  TEXT,
    closed_at     INTEGER,
    closed_by     TEXT,
    closed_event  TEXT,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX ask_open ON ask (tenant, opened_at, id) WHERE closed_at IS NULL;

CREATE TABLE outbox (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant   TEXT NOT NULL,
    id       TEXT NOT NULL,
    instance TEXT NOT NULL,
    kind     TEXT NOT NULL,
    name     TEXT NOT NULL,
    data     TEXT,
    at       INTEGER NOT NULL
) STRICT;

CREATE TABLE idempotency (
    tenant     TEXT NOT NULL,
    key        TEXT NOT NULL,
    body       TEXT NOT NULL,
    answer     TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_expiry ON idempotency (expires_at);

CREATE TABLE record (
    tenant     TEXT NOT NULL,
    kind       TEXT NOT NULL,
    key        TEXT NOT NULL,
    data       TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, kind, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE counter (
    tenant TEXT NOT NULL,
    key    TEXT NOT NULL,
    value  INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;
