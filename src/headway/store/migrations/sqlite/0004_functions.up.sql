-- Fingerprints of a chart's functions: a guard or an action whose code has changed is told.
ALTER TABLE chart_version ADD COLUMN functions TEXT NOT NULL DEFAULT '{}';
