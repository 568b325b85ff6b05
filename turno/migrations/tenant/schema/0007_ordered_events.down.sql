ALTER TABLE background_jobs DROP COLUMN key_position;
ALTER TABLE background_events DROP COLUMN number;
