-- Who calls finds a key by its id alone: the tenant is what the key tells.
CREATE TABLE api_key (
    id         text COLLATE "C" NOT NULL PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    name       text NOT NULL,
    actor      text NOT NULL,
    kind       text NOT NULL,
    roles      text NOT NULL,
    scopes     text NOT NULL,
    rate       bigint,
    secret     text NOT NULL,
    made_at    timestamptz NOT NULL,
    made_by    text NOT NULL,
    expires_at timestamptz,
    old_secret text,
    old_until  timestamptz,
    revoked_at timestamptz,
    used_at    timestamptz
);
CREATE INDEX api_key_by_tenant ON api_key (tenant, made_at, id);

-- Acts stand one by one, use and refusals as one row for each key, kind and day: so it stays small.
CREATE TABLE key_note (
    tenant   text COLLATE "C" NOT NULL,
    key      text COLLATE "C" NOT NULL,
    at       timestamptz NOT NULL,
    what     text COLLATE "C" NOT NULL,
    count    bigint NOT NULL,
    first_at timestamptz NOT NULL,
    last_at  timestamptz NOT NULL,
    by       text NOT NULL,
    PRIMARY KEY (tenant, key, at, what)
);
CREATE INDEX key_note_by_time ON key_note (at);

CREATE TYPE api_key_given AS (
    tenant text, id text, name text, actor text, kind text, roles text, scopes text, rate bigint, secret text,
    made_at timestamptz, made_by text, expires_at timestamptz, old_secret text, old_until timestamptz,
    revoked_at timestamptz, used_at timestamptz
);
CREATE TYPE key_note_given AS (
    tenant text, key text, at timestamptz, what text, count bigint, first_at timestamptz, last_at timestamptz, by text
);
CREATE TYPE key_use_given AS (id text, at timestamptz);
