CREATE OR REPLACE FUNCTION job_end(p_job uuid, p_status text, p_reason text, p_result jsonb, p_error jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    job background_jobs;
    items background_job_progress;
    own_items background_job_progress;  -- NULL if the job that waits for this job counts them: it has a total
    outcome text;
BEGIN
    UPDATE background_jobs
    SET status = p_status, reason = shortened(p_reason, 1000), result = p_result,
        error = CASE WHEN p_status <> 'completed' THEN coalesce(error_kept(p_error), error) END,
        finished_at = clock_timestamp(), in_doubt = NULL
    WHERE id = p_job AND status IN ('pending', 'running')
    RETURNING * INTO job;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT * INTO items FROM background_job_progress p WHERE p.job_id = p_job;
    SELECT p.* INTO own_items FROM background_job_progress p
    WHERE p.job_id = p_job AND has_items(p_job)
      AND NOT EXISTS (SELECT FROM background_job_progress_rows w WHERE w.job_id = job.awaited_by AND w.total > 0);
    outcome := outcome_of(p_status, p_reason, items.done, items.failed);
    IF p_status = 'failed' THEN
        INSERT INTO background_jobs_dead_letter (job_id, type, version, user_id, payload, cause, error, attempts)
        SELECT job.id, job.type, job.version, job.user_id, job.payload, job.reason, job.error,
               coalesce(jsonb_agg(to_jsonb(a) - '{job_id,token,reaped,in_doubt}'::text[] ORDER BY a.attempt), '[]')
        FROM (SELECT * FROM background_job_attempt_rows
              WHERE job_id = p_job ORDER BY attempt DESC LIMIT 100) AS a;
    END IF;
    IF p_status = 'failed' OR p_status = 'completed' AND own_items.failed > 0 THEN
        -- Before the ticket is deleted: later jobs of the key wait for the ticket or for the dead letter.
        INSERT INTO turno.dead_letters (job_id, tenant_id, type, outcome, error, items_done, items_failed, concurrency_key,
                                        key_position)
        VALUES (p_job, turno.tenant_of(current_user), job.type, outcome,
                CASE p_status WHEN 'failed' THEN turno.error_group(job.error) ELSE item_error(p_job) END, own_items.done,
                own_items.failed, CASE p_status WHEN 'failed' THEN job.concurrency_key END,
                CASE p_status WHEN 'failed' THEN job.key_position END);
    END IF;
    PERFORM outcome_put(p_job, outcome, own_items.done, own_items.failed);
    DELETE FROM turno.tickets WHERE job_id = p_job;
    RETURN true;
END $$;

-- A waiting job ends at once. A claimed job gets a request to stop: it may be running already, and ending it would
-- refuse the whole batch in its transaction.
CREATE OR REPLACE FUNCTION job_cancel(p_job uuid, p_user text, p_reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    job background_jobs;
    claimed boolean;
BEGIN
    SELECT state = 'running' INTO claimed FROM turno.tickets WHERE job_id = p_job FOR UPDATE;
    SELECT * INTO job FROM background_jobs WHERE id = p_job AND (p_user IS NULL OR user_id = p_user) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    ELSIF job.status NOT IN ('pending', 'running') THEN
        RETURN 'ended';
    ELSIF job.status = 'running' OR claimed THEN
        UPDATE background_jobs SET cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp()) WHERE id = p_job;
        UPDATE turno.tickets SET cancel_at = coalesce(cancel_at, clock_timestamp()) WHERE job_id = p_job;
        RETURN 'requested';
    END IF;
    PERFORM job_end(p_job, 'cancelled', p_reason, NULL, NULL);
    RETURN 'cancelled';
END $$;

CREATE OR REPLACE FUNCTION job_expire() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    expired bigint := 0;
    job uuid;
BEGIN
    FOR job IN SELECT id FROM background_jobs
               WHERE finished_at IS NULL AND status = 'pending' AND expires_at <= clock_timestamp() ORDER BY expires_at LIMIT 1000 LOOP
        -- A ticket that someone holds right now is being claimed: jobs_fetch will see the expiry.
        PERFORM FROM turno.tickets WHERE job_id = job AND state <> 'running' FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        BEGIN
            expired := expired + job_end(job, 'cancelled', 'expired', NULL, NULL)::integer;
        EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
            RAISE WARNING 'job % cannot expire: %', job, SQLERRM;
        END;
    END LOOP;
    RETURN expired;
END $$;
