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
