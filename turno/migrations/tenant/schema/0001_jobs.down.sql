-- Takes the whole job system out of one tenant: jobs, history and notifications are gone. Refused where outside
-- effects are on record: without that record they would be issued again.
DO $$ BEGIN
    IF EXISTS (SELECT FROM external_effects) THEN
        RAISE EXCEPTION 'this schema has a record of outside effects; remove it by hand if they may be forgotten';
    END IF;
END $$;
-- CASCADE drops the functions that depend on these tables in the catalog; the migration drops the others.
DROP TABLE external_doubt, external_effects, notifications, background_jobs_dead_letter, background_job_events,
    background_job_items, background_job_checkpoints, background_job_progress, background_job_attempts, background_jobs
    CASCADE;
