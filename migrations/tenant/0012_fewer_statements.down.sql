CREATE OR REPLACE FUNCTION job_start(p_job uuid, p_token uuid, p_worker text)
RETURNS TABLE (payload jsonb, user_id text, correlation_id text, trace_context text, attempt integer, errors integer,
               max_attempts integer, checkpoint jsonb, expired boolean, cancelled boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    run_number integer;
BEGIN
    PERFORM claim_hold(p_job, p_token);
    SELECT t.attempt INTO run_number FROM turno.tickets t WHERE t.job_id = p_job;
    RETURN QUERY
        UPDATE background_jobs j
        SET status = 'running', attempt = run_number, reason = NULL, started_at = coalesce(j.started_at, clock_timestamp())
        WHERE j.id = p_job AND j.status = 'pending'
        RETURNING j.payload, j.user_id, j.correlation_id, j.trace_context, j.attempt, j.errors, j.max_attempts,
                  (SELECT c.state FROM background_job_checkpoints c WHERE c.job_id = p_job),
                  coalesce(j.expires_at <= clock_timestamp(), false), j.cancel_requested_at IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job % is not waiting; this attempt must stop', p_job USING ERRCODE = 'TU001';
    END IF;
    INSERT INTO background_job_attempts (job_id, attempt, token, worker, backend_pid, backend_start)
    SELECT p_job, run_number, p_token, p_worker, a.pid, a.backend_start
    FROM pg_stat_get_activity(pg_backend_pid()) AS a;
END $$;

CREATE OR REPLACE FUNCTION job_complete(p_job uuid, p_token uuid, p_result jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM attempt_check(p_token);
    PERFORM claim_hold(p_job, p_token);
    PERFORM attempt_end(p_job, 'completed', NULL);
    PERFORM job_end(p_job, 'completed', NULL, p_result, NULL);
END $$;
