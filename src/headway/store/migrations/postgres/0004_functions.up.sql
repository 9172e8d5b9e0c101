-- Fingerprints of a chart's functions: a guard or an action whose code has changed is told.
ALTER TABLE chart_version ADD COLUMN functions text NOT NULL DEFAULT '{}';
ALTER TABLE chart_version ALTER COLUMN functions DROP DEFAULT;
DROP TYPE chart_given;
CREATE TYPE chart_given AS (
    chart text, version bigint, hash text, document text, stored_at timestamptz, functions text
);
