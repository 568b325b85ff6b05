-- The worker or child that held this claim is dead. Its backends are ended first, so that its locks go and nothing of it can
-- commit later: the one that the attempt names, and those whose name says worker and child. Then the claim is taken from it,
-- if it still has it. At the third crash the job is failed with the cause, or waits for a person if an outside effect of
-- its is in doubt. Uncounted it is only handed back: its worker was told to stop and could not wait for it.
-- p_counted NULL: nobody knows which of its jobs the dead one was at. That was one that was shown as running, or that ran
-- alone; any other is handed back, and runs alone from now on.
-- p_child: its supervisor saw this process end. Whatever outside call that was making, it makes no more.
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
        -- Also where somebody else has taken the claim: that one waits to hear of it.
        PERFORM effect_caller_gone(p_token);
    END IF;
    IF ticket.job_id IS NULL THEN
        RETURN 'gone';
    END IF;
    SELECT key INTO doubt FROM external_effects
    WHERE job_id = p_job AND state = 'intended' ORDER BY intended_at DESC LIMIT 1 FOR UPDATE;
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
        -- Not shown as running, and not to blame: for example, the login was refused.
        PERFORM job_requeue(p_job, clock_timestamp() + p_retry_in, p_cause, job.error, 0, 0);
        UPDATE turno.tickets SET crashes = 1 WHERE job_id = p_job AND p_counted IS NULL;
        RETURN 'pending';
    END IF;
    -- Its session is not known by number. What it died of stands in the history all the same.
    PERFORM attempt_open(p_job, p_token, ticket.worker_id::text, 0, clock_timestamp());
    -- Not attempt_close: a rescue mends what it finds and refuses nothing.
    UPDATE background_job_attempt_rows
    SET finished_at = clock_timestamp(), outcome = CASE WHEN counts THEN 'crashed' ELSE 'released' END, error = crash
    WHERE job_id = p_job AND finished_at IS NULL;
    IF job.cancel_requested_at IS NOT NULL THEN
        PERFORM job_end(p_job, 'cancelled', 'cancelled on request', NULL, crash);
        RETURN 'cancelled';
    ELSIF counts AND job.crashes >= 2 AND doubt IS NOT NULL THEN
        PERFORM outcome_put(p_job, 'crashed');
        -- Failing would hide that something outside may have happened.
        PERFORM job_requeue_for_review(p_job, doubt, format('%s is in doubt: %s', doubt, p_cause), crash, 1);
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
