-- The events are gone; the jobs that they made stay.
DROP TABLE background_event_jobs, background_events CASCADE;
