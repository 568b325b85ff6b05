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

-- The outcome of a job that ended with this status, reason and counts of items; turno/jobs/label.py has the same rule.
CREATE OR REPLACE FUNCTION outcome_of(p_status text, p_reason text, p_done integer, p_failed integer) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN p_status = 'cancelled' AND p_reason = 'expired' THEN 'expired'
            WHEN p_status <> 'completed' OR coalesce(p_failed, 0) = 0 THEN p_status
            WHEN p_done > 0 THEN 'completed_with_failures'
            ELSE 'nothing_done' END;

-- Whether progress counts a job's items: it has a ledger, or waits for jobs with ledgers. The handler reports any other progress.
CREATE OR REPLACE FUNCTION has_items(p_job uuid) RETURNS boolean LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM background_job_items i WHERE i.job_id = p_job)
    OR EXISTS (SELECT FROM background_jobs b WHERE b.awaited_by = p_job);

-- The most frequent group of errors among a thousand failed items of a job and the jobs it waits for.
CREATE OR REPLACE FUNCTION item_error(p_job uuid) RETURNS text LANGUAGE sql STABLE
RETURN coalesce((
    SELECT e.name FROM (
        SELECT turno.error_group(i.error) AS name FROM background_job_items i
        WHERE i.job_id IN (SELECT p_job UNION ALL SELECT b.id FROM background_jobs b WHERE b.awaited_by = p_job)
          AND i.state = 'failed'
        LIMIT 1000) AS e
    GROUP BY e.name ORDER BY count(*) DESC, e.name LIMIT 1), 'Error');
