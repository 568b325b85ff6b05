-- From now on the job is shown as running, and a rescue knows its backend. The caller holds the ticket. Nothing happens
-- to a job that is shown already.
CREATE OR REPLACE FUNCTION attempt_open(p_job uuid, p_token uuid, p_worker text, p_backend integer, p_began timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    WITH started AS (
        UPDATE background_jobs j
        SET status = 'running', attempt = t.attempt, reason = NULL, started_at = coalesce(j.started_at, p_began)
        FROM turno.tickets t
        WHERE j.id = p_job AND j.status = 'pending' AND t.job_id = p_job AND t.token = p_token
        RETURNING j.id, j.attempt
    )
    INSERT INTO background_job_attempt_rows (job_id, attempt, token, worker, backend_pid, backend_start, started_at)
    SELECT s.id, s.attempt, p_token, p_worker, p_backend, coalesce(a.backend_start, '-infinity'), p_began
    FROM started s LEFT JOIN pg_stat_get_activity(p_backend) AS a ON true;
END $$;

-- Before an attempt is recorded as anything but completed: its row, if the job was too short to be shown as running.
CREATE OR REPLACE FUNCTION job_start(p_job uuid, p_token uuid, p_worker text, p_began timestamptz) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    PERFORM attempt_open(p_job, p_token, p_worker, pg_backend_pid(), least(p_began, clock_timestamp()));
END $$;

-- By the supervisor, for a job that is long: people see that it runs, for so long already. The holder of the ticket is
-- about to commit a piece of work or the end, and is not waited for. Returns whether the job is shown now.
CREATE OR REPLACE FUNCTION jobs_running(p_job uuid, p_token uuid, p_worker text, p_backend integer, p_for interval)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = '50ms' AS $$
BEGIN
    -- Lost with the server, so is the session that works for it.
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM FROM turno.tickets WHERE job_id = p_job AND token = p_token FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM attempt_open(p_job, p_token, p_worker, p_backend, clock_timestamp() - p_for);
    RETURN true;
END $$;
