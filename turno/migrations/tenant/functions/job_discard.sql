-- An operator says that nobody will replay a dead letter: it no longer waits, and goes with its job.
CREATE OR REPLACE FUNCTION job_discard(p_job uuid, p_by text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    job background_jobs;
BEGIN
    UPDATE background_jobs_dead_letter SET discarded_at = clock_timestamp(), discarded_by = p_by
    WHERE job_id = p_job AND replayed_at IS NULL AND discarded_at IS NULL;
    IF NOT FOUND THEN
        RETURN coalesce((SELECT CASE WHEN d.replayed_at IS NULL THEN 'discarded before' ELSE 'replayed' END
                         FROM background_jobs_dead_letter d WHERE d.job_id = p_job), 'unknown');
    END IF;
    UPDATE turno.dead_letters SET closed_at = clock_timestamp(), closed_as = 'discarded' WHERE job_id = p_job;
    SELECT * INTO job FROM background_jobs WHERE id = p_job;
    INSERT INTO background_job_events (job_id, old_status, new_status, attempt, reason)
    VALUES (p_job, job.status, job.status, job.attempt, 'its dead letter was discarded by an operator');
    RETURN 'discarded';
END $$;
