-- The attempt ends without an error, and its job runs again when all jobs with its id in `awaited_by` have ended. The
-- state `parts` of its ticket lasts until then. Returns the new status.
CREATE OR REPLACE FUNCTION job_wait(p_job uuid, p_token uuid, p_reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    status text := attempt_end(p_job, p_token, 'rescheduled', p_reason, NULL, clock_timestamp(), NULL, false, NULL);
BEGIN
    IF status = 'pending' THEN
        UPDATE turno.tickets SET state = 'parts' WHERE job_id = p_job;
        INSERT INTO turno.part_looks (tenant_id, job_id, early) VALUES (turno.tenant_of(current_user), p_job, false);
    END IF;
    RETURN status;
END $$;

-- Let a waiting job run again before the jobs have ended that it waits for.
CREATE OR REPLACE FUNCTION job_wake(p_job uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO turno.part_looks (tenant_id, job_id, early) VALUES (turno.tenant_of(current_user), p_job, true);
END $$;

-- Let a job wait for these jobs, too, as far as they are open.
CREATE OR REPLACE FUNCTION jobs_await(p_jobs uuid[], p_awaited_by uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    WITH open AS (
        UPDATE turno.tickets SET awaited_by = p_awaited_by WHERE job_id = ANY (p_jobs) RETURNING job_id
    )
    UPDATE background_jobs j SET awaited_by = p_awaited_by FROM open WHERE j.id = open.job_id;
END $$;
