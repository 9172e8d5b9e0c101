-- Keys compare byte by byte (COLLATE "C"): quicker, and in the same order on every server.
--
-- Who looks a row up by its key must find the primary key, even by a plan that was made while the table was empty
-- and all indexes seemed alike. So every index for lists is a partial one, whose condition only the lists state: for
-- all other statements the planner cannot use it.

CREATE TABLE chart_version (
    chart     text COLLATE "C" NOT NULL,
    version   bigint NOT NULL,
    hash      text NOT NULL,
    document  text NOT NULL,
    stored_at timestamptz NOT NULL,
    PRIMARY KEY (chart, version)
);

-- Room on each page keeps the next version of a row beside the last one. As long as the status stays, no column of
-- an index changes, and so no index is written; that is why `ended_at` is there. `stamp`: see outbox.
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
    owner      text COLLATE "C",
    stamp      bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    journal    text NOT NULL,
    snapshot   text NOT NULL,
    seal       text NOT NULL,
    ended_at   timestamptz GENERATED ALWAYS AS (CASE WHEN ended THEN updated_at END) STORED,
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX instance_in_order ON instance (tenant, no) WHERE no > 0;
CREATE INDEX instance_by_status ON instance (tenant, chart, status, no) WHERE no > 0;
CREATE INDEX instance_by_parent ON instance (tenant, parent, no) WHERE parent IS NOT NULL;
CREATE INDEX instance_by_owner ON instance (tenant, owner, no) WHERE owner IS NOT NULL;
CREATE INDEX instance_live ON instance (tenant, no) WHERE NOT ended;
CREATE INDEX instance_ended ON instance (chart, ended_at) WHERE ended;

CREATE TABLE history (
    stamp      bigint NOT NULL,
    position   bigint GENERATED ALWAYS AS IDENTITY,
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
    version    bigint NOT NULL,
    note       text,
    hash       text NOT NULL,
    PRIMARY KEY (stamp, position)
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
CREATE INDEX timer_by_due ON timer (due, tenant, id) WHERE due IS NOT NULL;

-- `slot` stands for all that can hold an item up beside its due time; items that share it wait for the same.
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
    affinity     text COLLATE "C",
    concurrency  text COLLATE "C",
    at_once      bigint NOT NULL,
    rate         text COLLATE "C",
    rate_most    bigint NOT NULL,
    rate_per     bigint NOT NULL,
    worker       text COLLATE "C",
    leased_until timestamptz,
    started_at   timestamptz,
    checkpoint   text,
    trace        text,
    slot         text COLLATE "C" NOT NULL GENERATED ALWAYS AS (
        CASE WHEN affinity IS NULL AND concurrency IS NULL AND rate IS NULL THEN '' ELSE md5(
            quote_nullable(affinity) || ' ' || quote_nullable(concurrency) || ' ' || at_once::text
            || ' ' || quote_nullable(rate) || ' ' || rate_most::text || ' ' || rate_per::text
        ) END
    ) STORED,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX work_waiting ON work (queue, priority, tenant, slot, due, id) WHERE worker IS NULL;
CREATE INDEX work_leased ON work (leased_until, tenant, id) WHERE worker IS NOT NULL;
CREATE INDEX work_at_once ON work (tenant, concurrency) WHERE worker IS NOT NULL AND concurrency IS NOT NULL;

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
CREATE INDEX ask_closed ON ask (tenant, opened_at, id) WHERE closed_at IS NOT NULL;
CREATE INDEX ask_by_instance ON ask (tenant, instance, opened_at, id) WHERE instance IS NOT NULL;

-- Whom an open ask is for: roles, or `@` and the person it is delegated to.
CREATE TABLE ask_audience (
    tenant    text COLLATE "C" NOT NULL,
    audience  text COLLATE "C" NOT NULL,
    opened_at timestamptz NOT NULL,
    ask       text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, ask, audience)
);
CREATE INDEX ask_audience_inbox ON ask_audience (tenant, audience, opened_at, ask) WHERE audience IS NOT NULL;

-- Positions are not in the order of commits, so a reader that went by them would miss some. It goes by `stamp`:
-- the id of the transaction, or the stamp of an instance the transaction has seen if that is higher. What is
-- not committed yet has a stamp no lower than the oldest transaction under way, and the reader stops before that.
CREATE TABLE outbox (
    stamp    bigint NOT NULL,
    position bigint GENERATED ALWAYS AS IDENTITY,
    tenant   text COLLATE "C" NOT NULL,
    id       text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL,
    kind     text NOT NULL,
    name     text NOT NULL,
    data     text,
    at       timestamptz NOT NULL,
    trace    text,
    PRIMARY KEY (stamp, position)
);
CREATE INDEX outbox_by_age ON outbox USING brin (at) WITH (pages_per_range = 16);
CREATE INDEX outbox_live ON outbox (stamp, position) WHERE kind = 'live';
CREATE INDEX outbox_live_by_instance ON outbox (tenant, instance, stamp, position)
    WHERE kind = 'live' AND instance IS NOT NULL;

-- Up to where a log has gaps. There is one log that tells its readers so: the one of events.
CREATE TABLE forgotten (
    log      text COLLATE "C" PRIMARY KEY,
    stamp    bigint NOT NULL,
    position bigint NOT NULL,
    message  bigint NOT NULL
);

CREATE TABLE consumer (
    name     text COLLATE "C" PRIMARY KEY,
    stamp    bigint NOT NULL,
    position bigint NOT NULL
);

-- Messages that a destination has not taken at once. `head`: it is the first that waits of its instance, or was;
-- so that what is due is found among these, not among all that wait.
CREATE TABLE letter (
    destination text COLLATE "C" NOT NULL,
    tenant      text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    instance    text COLLATE "C" NOT NULL,
    kind        text NOT NULL,
    name        text NOT NULL,
    data        text,
    at          timestamptz NOT NULL,
    position    bigint NOT NULL,
    attempts    bigint NOT NULL,
    due         timestamptz NOT NULL,
    error       text NOT NULL,
    dead        boolean NOT NULL,
    trace       text,
    head        boolean NOT NULL DEFAULT false,
    PRIMARY KEY (destination, position)
);
CREATE INDEX letter_waiting ON letter (destination, tenant, instance, position) WHERE NOT dead;
CREATE INDEX letter_due ON letter (destination, due, position) WHERE head AND NOT dead;
CREATE INDEX letter_dead ON letter (destination, position) WHERE dead;

CREATE TABLE lease (
    tenant text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    holder text COLLATE "C" NOT NULL,
    until  timestamptz NOT NULL,
    PRIMARY KEY (tenant, name)
) WITH (fillfactor = 50);

-- When the next item of a rate may be handed out, if there were no bursts.
CREATE TABLE pace (
    tenant  text COLLATE "C" NOT NULL,
    rate    text COLLATE "C" NOT NULL,
    free_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, rate)
) WITH (fillfactor = 50);

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
    tenant text, id text, chart text, version bigint, seq bigint, status text, ended boolean, parent text, owner text,
    created_at timestamptz, updated_at timestamptz, journal text, snapshot text, seal text
);
CREATE TYPE instance_change AS (
    place tid, seen xid, chart text, version bigint, seq bigint, status text, ended boolean, owner text,
    updated_at timestamptz, journal text, snapshot text, seal text
);
CREATE TYPE history_given AS (
    tenant text, instance text, seq bigint, "row" bigint, at timestamptz, event text, transition text, before text,
    after text, actor text, reason text, attempt bigint, data text, version bigint, note text, hash text
);
CREATE TYPE timer_given AS (tenant text, id text, instance text, event text, due timestamptz);
CREATE TYPE work_given AS (
    tenant text, id text, instance text, state text, handler text, queue text, priority bigint, attempt bigint,
    due timestamptz, timeout bigint, heartbeat bigint, lease bigint, affinity text, concurrency text,
    at_once bigint, rate text, rate_most bigint, rate_per bigint, worker text, leased_until timestamptz,
    started_at timestamptz, checkpoint text, trace text
);
CREATE TYPE ask_given AS (
    tenant text, id text, instance text, state text, roles text, answers text, form text, shows text,
    opened_at timestamptz, deadline timestamptz, claimed_by text, claimed_until timestamptz, delegated_to text,
    closed_at timestamptz, closed_by text, closed_event text
);
CREATE TYPE ask_change AS (
    tenant text, id text, changes boolean, roles text, claimed_by text, claimed_until timestamptz, delegated_to text,
    closed_at timestamptz, closed_by text, closed_event text
);
CREATE TYPE audience_given AS (tenant text, ask text, opened_at timestamptz, audience text[]);
CREATE TYPE message_given AS (
    tenant text, id text, instance text, kind text, name text, data text, at timestamptz, trace text
);
CREATE TYPE request_given AS (tenant text, key text, body text, answer text, expires_at timestamptz);
CREATE TYPE record_given AS (tenant text, kind text, key text, data text, updated_at timestamptz);
CREATE TYPE counter_given AS (tenant text, key text, value bigint);
CREATE TYPE attempt_given AS (tenant text, id text, attempt bigint);
CREATE TYPE letter_given AS (
    destination text, tenant text, id text, instance text, kind text, name text, data text, at timestamptz,
    position bigint, attempts bigint, due timestamptz, error text, dead boolean, trace text
);
CREATE TYPE chart_given AS (chart text, version bigint, hash text, document text, stored_at timestamptz);

-- Marks the first that waits in each line of letters that has changed, whoever has changed it. Who comes second
-- waits, and then sees what the first has done.
CREATE FUNCTION mark_heads() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM changed) THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('headway letters ' || destination, 0))
    FROM (SELECT DISTINCT destination FROM changed ORDER BY destination) AS touched;
    UPDATE letter SET head = true FROM (
        SELECT first.place FROM (SELECT DISTINCT destination, tenant, instance FROM changed) AS line
        CROSS JOIN LATERAL (
            SELECT ctid AS place, head FROM letter
            WHERE NOT dead AND destination = line.destination AND tenant = line.tenant AND instance = line.instance
            ORDER BY position LIMIT 1
        ) AS first WHERE NOT first.head
    ) AS found WHERE letter.ctid = found.place;
    RETURN NULL;
END $$;
CREATE TRIGGER letter_inserted AFTER INSERT ON letter REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION mark_heads();
CREATE TRIGGER letter_updated AFTER UPDATE ON letter REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION mark_heads();
CREATE TRIGGER letter_deleted AFTER DELETE ON letter REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION mark_heads();

-- Ends a statement that has found a row changed since it was read; the store reads again.
CREATE FUNCTION start_over() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a row has changed since it was read' USING ERRCODE = 'serialization_failure';
END $$;
