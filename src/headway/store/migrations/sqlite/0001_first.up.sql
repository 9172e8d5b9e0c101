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
-- `seal`: a hash of all other columns that the engine writes. `pruned`: that of the last line that is gone of a
-- history which is too long to go in one transaction.
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
    owner      TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    journal    TEXT NOT NULL,
    snapshot   TEXT NOT NULL,
    seal       TEXT NOT NULL,
    pruned     TEXT,
    UNIQUE (tenant, id)
) STRICT;
CREATE INDEX instance_by_tenant ON instance (tenant);
CREATE INDEX instance_by_status ON instance (tenant, chart, status);
CREATE INDEX instance_by_parent ON instance (tenant, parent) WHERE parent IS NOT NULL;
CREATE INDEX instance_by_owner ON instance (tenant, owner) WHERE owner IS NOT NULL;
CREATE INDEX instance_live ON instance (tenant) WHERE ended = 0;
CREATE INDEX instance_ended ON instance (chart, updated_at) WHERE ended = 1;

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
    data       TEXT,
    version    INTEGER NOT NULL,
    note       TEXT,
    hash       TEXT NOT NULL
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
-- `place` is what work must have in common to be claimed in one go: its tenant, handler and limits. It is
-- empty until the work is due, so that who looks for work does not meet what is for later.
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
    at_once      INTEGER NOT NULL,
    rate         TEXT,
    rate_most    INTEGER NOT NULL,
    rate_per     INTEGER NOT NULL,
    worker       TEXT,
    leased_until INTEGER,
    started_at   INTEGER,
    checkpoint   TEXT,
    trace        TEXT,
    place        TEXT,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX work_waiting ON work (queue, priority, place, due, id) WHERE worker IS NULL AND place IS NOT NULL;
CREATE INDEX work_for_later ON work (due) WHERE worker IS NULL AND place IS NULL;
CREATE INDEX work_leased ON work (leased_until, tenant, id) WHERE worker IS NOT NULL;
CREATE INDEX work_at_once ON work (tenant, concurrency) WHERE worker IS NOT NULL AND concurrency IS NOT NULL;

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
CREATE INDEX ask_closed ON ask (tenant, opened_at, id) WHERE closed_at IS NOT NULL;
CREATE INDEX ask_open_by_instance ON ask (tenant, instance, opened_at, id) WHERE closed_at IS NULL;
CREATE INDEX ask_closed_by_instance ON ask (tenant, instance, opened_at, id) WHERE closed_at IS NOT NULL;

-- Whom an open ask is for: roles, and the person it is delegated to as `@id`.
CREATE TABLE ask_audience (
    tenant    TEXT NOT NULL,
    audience  TEXT NOT NULL,
    opened_at INTEGER NOT NULL,
    ask       TEXT NOT NULL,
    PRIMARY KEY (tenant, audience, opened_at, ask)
) STRICT, WITHOUT ROWID;

-- `line` is the last line of history when it was written, after which a live message stands in the log of events.
CREATE TABLE outbox (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant   TEXT NOT NULL,
    id       TEXT NOT NULL,
    instance TEXT NOT NULL,
    kind     TEXT NOT NULL,
    name     TEXT NOT NULL,
    data     TEXT,
    at       INTEGER NOT NULL,
    trace    TEXT,
    line     INTEGER NOT NULL
) STRICT;
CREATE INDEX outbox_live ON outbox (line) WHERE kind = 'live';
CREATE INDEX outbox_live_by_instance ON outbox (tenant, instance) WHERE kind = 'live';

-- Up to where a log has gaps. There is one log that tells its readers so: the one of events.
CREATE TABLE forgotten (
    log      TEXT PRIMARY KEY,
    stamp    INTEGER NOT NULL,
    position INTEGER NOT NULL,
    message  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE consumer (
    name     TEXT PRIMARY KEY,
    stamp    INTEGER NOT NULL,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Messages that a destination has not taken at once. `head`: the first that waits, of its instance.
CREATE TABLE letter (
    destination TEXT NOT NULL,
    tenant      TEXT NOT NULL,
    id          TEXT NOT NULL,
    instance    TEXT NOT NULL,
    kind        TEXT NOT NULL,
    name        TEXT NOT NULL,
    data        TEXT,
    at          INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    due         INTEGER NOT NULL,
    error       TEXT NOT NULL,
    dead        INTEGER NOT NULL CHECK (dead IN (0, 1)),
    trace       TEXT,
    head        INTEGER NOT NULL DEFAULT 0 CHECK (head IN (0, 1 - dead)),
    PRIMARY KEY (destination, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX letter_waiting ON letter (destination, tenant, instance, position) WHERE dead = 0;
CREATE UNIQUE INDEX letter_head ON letter (destination, tenant, instance) WHERE head = 1;
CREATE INDEX letter_due ON letter (destination, due, position) WHERE head = 1;
CREATE INDEX letter_by_destination ON letter (dead, destination, position);
CREATE INDEX letter_by_both ON letter (dead, destination, tenant, position);
CREATE INDEX letter_by_tenant ON letter (dead, tenant, position, destination);
CREATE INDEX letter_by_position ON letter (dead, position, destination);
CREATE INDEX letter_by_id ON letter (id);

CREATE TABLE lease (
    tenant TEXT NOT NULL,
    name   TEXT NOT NULL,
    holder TEXT NOT NULL,
    until  INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- How long the items of a rate that were handed out use it up; from then on it has all its room again.
CREATE TABLE pace (
    tenant  TEXT NOT NULL,
    rate    TEXT NOT NULL,
    free_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, rate)
) STRICT, WITHOUT ROWID;
CREATE INDEX pace_by_time ON pace (free_at);

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
