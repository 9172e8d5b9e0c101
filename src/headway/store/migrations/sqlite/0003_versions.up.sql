-- Work and timers say which version of which chart their instance has: a node takes only what it knows.
ALTER TABLE timer ADD COLUMN chart TEXT NOT NULL DEFAULT '';
ALTER TABLE timer ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
UPDATE timer SET (chart, version) = (
    SELECT chart, version FROM instance WHERE instance.tenant = timer.tenant AND instance.id = timer.instance
) WHERE EXISTS (SELECT 1 FROM instance WHERE instance.tenant = timer.tenant AND instance.id = timer.instance);
DROP INDEX timer_by_due;
CREATE INDEX timer_by_due ON timer (chart, version, due, tenant, id);

ALTER TABLE work ADD COLUMN chart TEXT NOT NULL DEFAULT '';
ALTER TABLE work ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
-- A place names the version, too; work gets one when somebody claims.
UPDATE work SET place = NULL;
UPDATE work SET (chart, version) = (
    SELECT chart, version FROM instance WHERE instance.tenant = work.tenant AND instance.id = work.instance
) WHERE EXISTS (SELECT 1 FROM instance WHERE instance.tenant = work.tenant AND instance.id = work.instance);

-- Nodes that run, with the versions that each knows, as JSON.
CREATE TABLE node (
    name     TEXT PRIMARY KEY,
    versions TEXT NOT NULL,
    until    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
