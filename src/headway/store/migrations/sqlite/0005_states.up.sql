-- The leaf states of an instance and when they were reached, so that they are counted and listed without its snapshot.
ALTER TABLE instance ADD COLUMN states TEXT NOT NULL DEFAULT '';
ALTER TABLE instance ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
-- A time in a snapshot is ISO 8601 in UTC, with microseconds or without.
UPDATE instance SET
    states = coalesce((
        SELECT group_concat(value, '+') FROM (
            SELECT value FROM json_each(instance.snapshot, '$.states') ORDER BY key
        )
    ), ''),
    since = coalesce((
        SELECT max(
            strftime('%s', substr(entered.value, 1, 19)) * 1000000
            + CASE substr(entered.value, 20, 1)
                WHEN '.' THEN CAST(substr(rtrim(substr(entered.value, 21), 'Z') || '000000', 1, 6) AS INTEGER)
                ELSE 0
            END
        )
        FROM json_each(instance.snapshot, '$.states') AS state
        JOIN json_each(instance.snapshot, '$.since') AS entered ON entered.key = state.value
    ), created_at)
WHERE json_valid(snapshot);
-- With `ended` they have all that a count reads: SQLite looks at it, though the condition of the index says it.
CREATE INDEX instance_by_states ON instance (tenant, chart, states, version, since, ended) WHERE ended = 0;
CREATE INDEX instance_ended_by_states ON instance (tenant, chart, states, version, ended) WHERE ended = 1;

-- When the states before a line were reached, if it left them; what is stored already does not say.
ALTER TABLE history ADD COLUMN since INTEGER;

-- The log of events also says how many instances were pruned: messages of the kind `pruned`, of no instance.
DROP INDEX outbox_live;
DROP INDEX outbox_live_by_instance;
CREATE INDEX outbox_live ON outbox (line) WHERE kind IN ('live', 'pruned');
CREATE INDEX outbox_live_by_instance ON outbox (tenant, instance) WHERE kind IN ('live', 'pruned');
