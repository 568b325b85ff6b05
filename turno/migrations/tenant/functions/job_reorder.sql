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
