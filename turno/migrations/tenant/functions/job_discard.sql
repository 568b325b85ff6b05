-- Close a dead letter without a retry: the job, or its failed items, stay as they are, and it is deleted with its job.
CREATE OR REPLACE FUNCTION job_discard(p_job uuid, p_by text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    job background_jobs;
BEGIN
    UPDATE turno.dead_letters SET closed_at = clock_timestamp(), closed_as = 'discarded'
    WHERE job_id = p_job AND closed_at IS NULL;
    IF NOT FOUND THEN
        RETURN coalesce((SELECT CASE d.closed_as WHEN 'discarded' THEN 'discarded before' ELSE d.closed_as END
                         FROM turno.dead_letters d WHERE d.job_id = p_job), 'unknown');
    END IF;
    -- Of a job that failed.
    UPDATE background_jobs_dead_letter SET discarded_at = clock_timestamp(), discarded_by = p_by
    WHERE job_id = p_job AND replayed_at IS NULL AND discarded_at IS NULL;
    SELECT * INTO job FROM background_jobs WHERE id = p_job;
    INSERT INTO background_job_event_rows (job_id, old_status, new_status, attempt, reason)
    VALUES (p_job, job.status, job.status, job.attempt, 'its dead letter was discarded by an operator');
    RETURN 'discarded';
END $$;
