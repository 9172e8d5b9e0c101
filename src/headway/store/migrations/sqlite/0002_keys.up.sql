-- Who calls finds a key by its id alone: the tenant is what the key tells.
CREATE TABLE api_key (
    id         TEXT NOT NULL PRIMARY KEY,
    tenant     TEXT NOT NULL,
    name       TEXT NOT NULL,
    actor      TEXT NOT NULL,
    kind       TEXT NOT NULL,
    roles      TEXT NOT NULL,
    scopes     TEXT NOT NULL,
    rate       INTEGER,
    secret     TEXT NOT NULL,
    made_at    INTEGER NOT NULL,
    made_by    TEXT NOT NULL,
    expires_at INTEGER,
    old_secret TEXT,
    old_until  INTEGER,
    revoked_at INTEGER,
    used_at    INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX api_key_by_tenant ON api_key (tenant, made_at, id);

-- Acts stand one by one, use and refusals as one row for each key, kind and day: so it stays small.
CREATE TABLE key_note (
    tenant   TEXT NOT NULL,
    key      TEXT NOT NULL,
    at       INTEGER NOT NULL,
    what     TEXT NOT NULL,
    count    INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at  INTEGER NOT NULL,
    by       TEXT NOT NULL,
    PRIMARY KEY (tenant, key, at, what)
) STRICT, WITHOUT ROWID;
CREATE INDEX key_note_by_time ON key_note (at);
