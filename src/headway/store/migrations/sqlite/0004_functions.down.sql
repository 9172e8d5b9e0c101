ALTER TABLE chart_version DROP COLUMN functions;
