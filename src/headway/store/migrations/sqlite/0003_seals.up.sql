-- `seal`: a hash of all other columns that the engine writes. `pruned`: that of the last line that is gone of a
-- history which is too long to go in one transaction.
ALTER TABLE instance ADD COLUMN seal TEXT NOT NULL DEFAULT '';
ALTER TABLE instance ADD COLUMN pruned TEXT;
