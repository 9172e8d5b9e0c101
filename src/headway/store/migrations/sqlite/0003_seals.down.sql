ALTER TABLE instance DROP COLUMN pruned;
ALTER TABLE instance DROP COLUMN seal;
