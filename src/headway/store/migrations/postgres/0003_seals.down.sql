ALTER TYPE instance_change DROP ATTRIBUTE seal;
ALTER TYPE instance_given DROP ATTRIBUTE seal;
ALTER TABLE instance DROP COLUMN seal;
