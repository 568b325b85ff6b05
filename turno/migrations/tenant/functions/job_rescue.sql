-- The worker or child that held this claim is dead. Its backend is ended first, so that its
-- locks go and nothing of it can commit later; then the claim is taken from it, if it still has it.
-- At the third crash the job is failed with the cause, or waits for a person if an outside effect of
-- its is in doubt. Uncounted it is only handed back: its worker was told to stop and could not wait for it.
-- p_seen: its supervisor saw the process end. Whatever outside call that was making, it makes no more; and
-- what it died of is a crash also if it died before its start was recorded.
CREATE OR REPLACE FUNCTION job_rescue(
    p_job uuid, p_token uuid, p_cause text, p_retry_in interval, p_counted boolean, p_seen boolean) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    job background_jobs;
    run_number integer;
    holder uuid;
    doubt text;
    crash jsonb := jsonb_build_object('class', 'Crash', 'message', p_cause);
BEGIN
    PERFORM pg_terminate_backend(s.pid, 1000)
    FROM background_job_attempts a
    JOIN pg_stat_get_activity(a.backend_pid) s ON s.pid = a.backend_pid AND s.backend_start = a.backend_start
    WHERE a.job_id = p_job AND a.token = p_token AND a.finished_at IS NULL;

    SELECT attempt, worker_id INTO run_number, holder FROM turno.tickets
    WHERE job_id = p_job AND token = p_token AND state = 'running' FOR UPDATE;
    IF p_seen THEN
        -- Also where somebody else has taken the claim: that one waits to hear of it.
        PERFORM effect_caller_gone(p_token);
    END IF;
    IF run_number IS NULL THEN
        RETURN 'gone';
    END IF;
    SELECT key INTO doubt FROM external_effects
    WHERE job_id = p_job AND state = 'intended' ORDER BY intended_at DESC LIMIT 1 FOR UPDATE;
    SELECT * INTO job FROM background_jobs WHERE id = p_job FOR UPDATE;
    IF NOT FOUND OR job.status NOT IN ('pending', 'running') THEN
        DELETE FROM turno.tickets WHERE job_id = p_job;
        RETURN 'gone';
    ELSIF job.status = 'pending' AND NOT (p_counted AND p_seen) THEN
        -- Never started, for example because the login was refused: no fault of the job's.
        PERFORM job_requeue(p_job, clock_timestamp() + p_retry_in, p_cause, job.error, 0, 0);
        RETURN 'pending';
    ELSIF job.status = 'pending' THEN
        UPDATE background_jobs SET attempt = run_number WHERE id = p_job;
        -- It had no session that anybody knows of. What it died of stands in the history all the same.
        INSERT INTO background_job_attempts (job_id, attempt, token, worker, backend_pid, backend_start)
        VALUES (p_job, run_number, p_token, holder::text, 0, '-infinity') ON CONFLICT DO NOTHING;
    END IF;
    -- Not attempt_end: a rescue mends what it finds and refuses nothing.
    UPDATE background_job_attempts
    SET finished_at = clock_timestamp(), outcome = CASE WHEN p_counted THEN 'crashed' ELSE 'released' END, error = crash
    WHERE job_id = p_job AND finished_at IS NULL;
    IF job.cancel_requested_at IS NOT NULL THEN
        PERFORM job_end(p_job, 'cancelled', 'cancelled on request', NULL, crash);
        RETURN 'cancelled';
    ELSIF p_counted AND job.crashes >= 2 AND doubt IS NOT NULL THEN
        -- Failing would hide that something outside may have happened.
        PERFORM job_await_review(p_job, doubt, format('%s is in doubt: %s', doubt, p_cause), crash, 1);
        RETURN 'pending';
    ELSIF p_counted AND job.crashes >= 2 THEN
        UPDATE background_jobs SET crashes = crashes + 1 WHERE id = p_job;
        PERFORM job_end(p_job, 'failed', p_cause, NULL, crash);
        RETURN 'failed';
    END IF;
    PERFORM job_requeue(p_job, clock_timestamp() + p_retry_in, p_cause, crash, 0, p_counted::integer);
    RETURN 'pending';
END $$;
