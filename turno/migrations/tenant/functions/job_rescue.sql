-- The worker or child that held this claim is dead. Its backends are ended first, so that its locks go and nothing of
-- it can commit later: the backend of the attempt, and backends with the worker and the child in their name. Then the
-- claim is taken from it, if it still has the claim. At the third crash the job fails with the cause, or is parked if
-- its attempt left something in doubt. Uncounted, the job is only handed back: its worker was stopped and could not
-- wait for the job.
-- p_counted NULL: the job that the dead process worked at is unknown. It was a job that was shown as running, or that
-- ran alone; any other job is handed back, and runs alone from now on.
-- p_child: the worker saw this process exit.
CREATE OR REPLACE FUNCTION job_rescue(
    p_job uuid, p_token uuid, p_cause text, p_retry_in interval, p_counted boolean, p_child integer) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    ticket turno.tickets;
    job background_jobs;
    counts boolean;
    doubt text;
    crash jsonb := jsonb_build_object('class', 'Crash', 'message', p_cause);
BEGIN
    SELECT * INTO ticket FROM turno.tickets WHERE job_id = p_job AND token = p_token;
    PERFORM pg_terminate_backend(s.pid, 1000) FROM pg_stat_get_activity(NULL) AS s
    WHERE s.application_name LIKE format('turno-handler %s %s', ticket.worker_id, coalesce(p_child::text, '%'))
          AND pg_has_role(s.usesysid, 'MEMBER')
       OR (s.pid, s.backend_start) IN (SELECT a.backend_pid, a.backend_start FROM background_job_attempt_rows a
                                       WHERE a.job_id = p_job AND a.token = p_token AND a.finished_at IS NULL);

    SELECT * INTO ticket FROM turno.tickets WHERE job_id = p_job AND token = p_token AND state = 'running' FOR UPDATE;
    IF p_child IS NOT NULL THEN
        -- Also after another worker took the claim.
        UPDATE background_job_attempt_rows SET reaped = true WHERE job_id = p_job AND token = p_token;
    END IF;
    IF ticket.job_id IS NULL THEN
        RETURN 'gone';
    END IF;
    SELECT * INTO job FROM background_jobs WHERE id = p_job FOR UPDATE;
    IF NOT FOUND OR job.status NOT IN ('pending', 'running') THEN
        DELETE FROM turno.tickets WHERE job_id = p_job;
        RETURN 'gone';
    END IF;
    PERFORM outcome_put(p_job, 'rescued');
    counts := coalesce(p_counted, job.status = 'running' OR ticket.crashes > 0);
    IF job.status = 'pending' AND job.cancel_requested_at IS NOT NULL AND NOT counts THEN
        PERFORM job_end(p_job, 'cancelled', 'cancelled on request', NULL, NULL);
        RETURN 'cancelled';
    ELSIF job.status = 'pending' AND NOT counts THEN
        -- Not shown as running, and not the cause: for example, the login was refused.
        PERFORM job_requeue(p_job, clock_timestamp() + p_retry_in, p_cause, job.error, 0, 0);
        UPDATE turno.tickets SET crashes = 1 WHERE job_id = p_job AND p_counted IS NULL;
        RETURN 'pending';
    END IF;
    -- The session of this attempt is unknown; the history keeps the cause all the same.
    PERFORM attempt_open(p_job, p_token, ticket.worker_id::text, 0, clock_timestamp());
    -- Not attempt_end: a rescue repairs every state and refuses none.
    UPDATE background_job_attempt_rows
    SET finished_at = clock_timestamp(), outcome = CASE WHEN counts THEN 'crashed' ELSE 'released' END, error = crash
    WHERE job_id = p_job AND finished_at IS NULL
    RETURNING in_doubt INTO doubt;
    IF job.cancel_requested_at IS NOT NULL THEN
        PERFORM job_end(p_job, 'cancelled', 'cancelled on request', NULL, crash);
        RETURN 'cancelled';
    ELSIF counts AND job.crashes >= 2 AND doubt IS NOT NULL THEN
        PERFORM outcome_put(p_job, 'crashed');
        -- A failure would hide that something outside may have happened.
        PERFORM job_park(p_job, doubt, format('%s is in doubt: %s', doubt, p_cause), crash, 1);
        RETURN 'pending';
    ELSIF counts AND job.crashes >= 2 THEN
        UPDATE background_jobs SET crashes = crashes + 1 WHERE id = p_job;
        PERFORM job_end(p_job, 'failed', p_cause, NULL, crash);
        RETURN 'failed';
    END IF;
    PERFORM outcome_put(p_job, CASE WHEN counts THEN 'crashed' ELSE 'released' END);
    PERFORM job_requeue(p_job, clock_timestamp() + p_retry_in, p_cause, crash, 0, counts::integer);
    RETURN 'pending';
END $$;

-- End these sessions, except sessions of other logins than the tenant's; returns their number.
CREATE OR REPLACE FUNCTION sessions_end(p_pids integer[]) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    SELECT count(*) FILTER (WHERE pg_terminate_backend(s.pid)) FROM pg_stat_get_activity(NULL) AS s
    WHERE s.pid = ANY (p_pids) AND pg_has_role(s.usesysid, 'MEMBER');
END;
