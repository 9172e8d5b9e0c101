DROP TYPE chart_given;
CREATE TYPE chart_given AS (chart text, version bigint, hash text, document text, stored_at timestamptz);
ALTER TABLE chart_version DROP COLUMN functions;
