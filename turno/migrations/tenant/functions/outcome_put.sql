-- Record the outcome of an attempt, of a job that ended without one, or of a claim that was taken back ('rescued'). To be called
-- before the ticket changes: the attempt is that of the ticket's claim. A job waits from the moment it could run, not from
-- its creation: a poller, a retry or a job for tonight has waited only since its time came.
CREATE OR REPLACE FUNCTION outcome_put(p_job uuid, p_outcome text, p_done integer DEFAULT NULL,
                                       p_failed integer DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    job background_jobs;
    ran background_job_attempt_rows;
    waited_until timestamptz;
BEGIN
    SELECT * INTO job FROM background_jobs WHERE id = p_job;
    SELECT a.* INTO ran FROM background_job_attempt_rows a JOIN turno.tickets t ON t.job_id = a.job_id AND t.token = a.token
    WHERE a.job_id = p_job AND p_outcome <> 'rescued';
    waited_until := coalesce(ran.started_at, clock_timestamp());
    INSERT INTO turno.outcome_batches (tenant_id, type, outcome, jobs, items_done, items_failed, wait_ms, run_ms)
    VALUES (turno.tenant_of(current_user), job.type, p_outcome, ARRAY[p_job], ARRAY[p_done], ARRAY[p_failed],
            -- The time to run may never have come, and int may overflow.
            ARRAY[least(2147483647, 1000 * extract(epoch FROM waited_until - least(job.run_at, waited_until)))::integer],
            ARRAY[CASE WHEN ran.job_id IS NOT NULL THEN least(2147483647, 1000 * extract(epoch FROM
                greatest(interval '0', coalesce(ran.finished_at, clock_timestamp()) - ran.started_at)))::integer END]);
END $$;
