-- In which order events were published, whatever the clock did meanwhile.
ALTER TABLE background_events ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY;
-- Where a job stands in its key's order: its ticket can be made again from it.
ALTER TABLE background_jobs ADD COLUMN key_position bigint;
