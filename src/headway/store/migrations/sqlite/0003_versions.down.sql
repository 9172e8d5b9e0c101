DROP TABLE node;
UPDATE work SET place = NULL;
ALTER TABLE work DROP COLUMN version;
ALTER TABLE work DROP COLUMN chart;
DROP INDEX timer_by_due;
ALTER TABLE timer DROP COLUMN version;
ALTER TABLE timer DROP COLUMN chart;
CREATE INDEX timer_by_due ON timer (due, tenant, id);
