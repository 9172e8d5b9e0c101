-- A hash of all other columns that the engine writes.
ALTER TABLE instance ADD COLUMN seal text NOT NULL DEFAULT '';
ALTER TYPE instance_given ADD ATTRIBUTE seal text;
ALTER TYPE instance_change ADD ATTRIBUTE seal text;
