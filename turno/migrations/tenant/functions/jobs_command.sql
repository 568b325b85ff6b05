-- An operator's command on these jobs: each job is changed by its guarded function or skipped, with a verdict. A job
-- that another session has locked for longer than a moment is skipped, too. How many were changed is on record with it.
-- p_command: retry, rerun (completed jobs), discard, cancel, reprioritise, reschedule. p_detail is the further text of the record.
CREATE OR REPLACE FUNCTION jobs_command(
    p_command text, p_jobs uuid[], p_by text, p_backend text, p_priority smallint, p_run_at timestamptz, p_detail jsonb,
    p_correlation_id text, p_pending_limit integer, p_day_limits jsonb)
RETURNS TABLE (job_id uuid, verdict text, made uuid, exceeded text, retry_in double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = '200ms' AS $$
DECLARE
    changed integer := 0;
BEGIN
    -- In the order of their ids, the lock order of all functions that lock several tickets.
    FOR job_id IN SELECT DISTINCT j FROM unnest(p_jobs) AS j ORDER BY j LOOP
        made := NULL;
        exceeded := NULL;
        retry_in := NULL;
        BEGIN
            CASE p_command
                WHEN 'retry', 'rerun' THEN
                    SELECT r.verdict, r.job_id, r.exceeded, r.retry_in INTO verdict, made, exceeded, retry_in
                    FROM job_retry(job_id, NULL, p_backend, p_correlation_id, p_pending_limit, p_day_limits,
                                   p_command = 'rerun') AS r;
                WHEN 'discard' THEN verdict := job_discard(job_id, p_by);
                WHEN 'cancel' THEN verdict := job_cancel(job_id, NULL, coalesce(p_detail ->> 'reason', 'cancelled by an operator'));
                WHEN 'reprioritise' THEN verdict := job_reorder(job_id, p_priority, NULL);
                WHEN 'reschedule' THEN verdict := job_reorder(job_id, NULL, coalesce(p_run_at, clock_timestamp()));
            END CASE;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            verdict := 'locked';
        END;
        changed := changed + (verdict IN ('accepted', 'discarded', 'cancelled', 'requested', 'changed'))::integer;
        RETURN NEXT;
    END LOOP;
    IF changed > 0 THEN
        INSERT INTO turno.operator_acts (actor, action, jobs, detail, correlation_id)
        VALUES (p_by, p_command, changed,
                CASE WHEN cardinality(p_jobs) = 1 THEN jsonb_build_object('job', p_jobs[1]) ELSE '{}' END || coalesce(p_detail, '{}'),
                p_correlation_id);
    END IF;
END $$;

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

-- A waiting job gets another priority, or another time to run, or both. A job with a claim is skipped, and so is a job
-- that waits for a person: only a decision about its outside effect lets it run.
CREATE OR REPLACE FUNCTION job_reorder(p_job uuid, p_priority smallint, p_run_at timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    job background_jobs;
    claimed boolean;
BEGIN
    SELECT state = 'running' INTO claimed FROM turno.tickets WHERE job_id = p_job FOR UPDATE;
    SELECT * INTO job FROM background_jobs WHERE id = p_job FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    ELSIF job.finished_at IS NOT NULL THEN
        RETURN 'ended';
    ELSIF job.status = 'running' OR claimed THEN
        RETURN 'running';
    ELSIF p_run_at IS NOT NULL AND job.run_at = 'infinity' THEN
        RETURN 'needs review';
    ELSIF coalesce(p_priority, job.priority) = job.priority AND coalesce(p_run_at, job.run_at) = job.run_at THEN
        RETURN 'unchanged';
    END IF;
    UPDATE background_jobs SET priority = coalesce(p_priority, priority), run_at = coalesce(p_run_at, run_at)
    WHERE id = p_job AND status = 'pending';
    -- The broker's message has the old priority and time: the relay publishes a new message.
    UPDATE turno.tickets
    SET priority = coalesce(p_priority, priority), run_at = coalesce(p_run_at, run_at), published_at = NULL,
        state = CASE WHEN p_run_at IS NULL AND state IN ('parts', 'review') THEN state
                     ELSE turno.due_state(coalesce(p_run_at, run_at), concurrency_key) END
    WHERE job_id = p_job AND state <> 'running';
    INSERT INTO background_job_event_rows (job_id, old_status, new_status, attempt, reason)
    VALUES (p_job, job.status, job.status, job.attempt,
            concat_ws(' and ', 'priority ' || (ARRAY['urgent', 'normal', 'low'])[p_priority + 1], 'due ' || p_run_at)
            || ' by an operator');
    RETURN 'changed';
END $$;
