-- Hold the claim until the transaction ends, or raise: a worker that lost it writes nothing. Of an attempt that is shown as
-- running the token serves the session that works on it, and any other only after that session has ended. The commit is
-- flushed to disk before it returns, independent of the handler's settings: effects outside rely on it. Returns whether a
-- cancellation of the job was requested.
CREATE OR REPLACE FUNCTION claim_hold(p_job uuid, p_token uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    shown background_job_attempt_rows;
BEGIN
    PERFORM FROM turno.tickets WHERE job_id = p_job AND token = p_token FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim on job % was lost; this attempt must stop', p_job USING ERRCODE = 'TU001';
    END IF;
    SELECT * INTO shown FROM background_job_attempt_rows
    WHERE job_id = p_job AND token = p_token AND finished_at IS NULL AND backend_pid <> pg_backend_pid();
    IF FOUND THEN
        PERFORM session_gone(shown.backend_pid, shown.backend_start);
        UPDATE background_job_attempt_rows
        SET backend_pid = pg_backend_pid(),
            backend_start = (SELECT s.backend_start FROM pg_stat_get_activity(pg_backend_pid()) AS s)
        WHERE job_id = p_job AND attempt = shown.attempt;
    END IF;
    PERFORM set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') IN ('off', 'local');
    RETURN (SELECT cancel_requested_at IS NOT NULL FROM background_jobs WHERE id = p_job);
END $$;

-- Raises unless the session that works on an attempt has ended; waits 15 seconds for that. A network without answers ends a
-- session after 12.
CREATE OR REPLACE FUNCTION session_gone(p_pid integer, p_start timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    until timestamptz := clock_timestamp() + interval '15 s';
BEGIN
    WHILE EXISTS (SELECT FROM pg_stat_get_activity(p_pid) AS s WHERE s.backend_start = p_start) LOOP
        IF clock_timestamp() > until THEN
            RAISE EXCEPTION 'another session works on this attempt; only that session may end it' USING ERRCODE = 'TU013';
        END IF;
        PERFORM pg_sleep(0.02), pg_stat_clear_snapshot();
    END LOOP;
END $$;

-- Which of these claims are still held; they stay so until the transaction ends. Waits for a commit under way that may
-- have ended them: a worker that lost the reply to its COMMIT learns its outcome here.
CREATE OR REPLACE FUNCTION jobs_held(p_jobs uuid[], p_tokens uuid[]) RETURNS uuid[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off AS $$
BEGIN
    -- A token was given to one job only, so the pairs need not be compared.
    RETURN ARRAY(
        SELECT t.job_id FROM turno.tickets t WHERE t.job_id = ANY (p_jobs) AND t.token = ANY (p_tokens)
        ORDER BY t.job_id FOR UPDATE);
END $$;

-- Count attempts that lost their claim: each attempt once, at most 100 in a call. An attempt with a recorded end kept
-- its claim: only the reply to its commit was lost.
CREATE OR REPLACE FUNCTION claims_lost(p_jobs uuid[], p_tokens uuid[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    WITH lost AS (
        UPDATE background_job_attempt_rows a SET lost = true
        FROM unnest(p_jobs[:100], p_tokens[:100]) AS l (job_id, token)
        WHERE a.job_id = l.job_id AND a.token = l.token AND a.outcome IN ('crashed', 'released') AND NOT a.lost
        RETURNING a.job_id
    )
    INSERT INTO turno.outcome_batches (tenant_id, type, outcome, jobs, wait_ms)
    SELECT turno.tenant_of(current_user), j.type, 'claim_lost', array_agg(j.id), array_agg(0)
    FROM lost JOIN background_jobs j ON j.id = lost.job_id GROUP BY j.type;
END;
