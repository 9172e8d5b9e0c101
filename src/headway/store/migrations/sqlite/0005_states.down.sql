ALTER TABLE history DROP COLUMN since;
DROP INDEX instance_ended_by_states;
DROP INDEX instance_by_states;
ALTER TABLE instance DROP COLUMN since;
ALTER TABLE instance DROP COLUMN states;
