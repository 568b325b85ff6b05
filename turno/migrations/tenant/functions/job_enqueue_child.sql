-- A job that a running attempt asks for: of its own user, on its own backend, and only while the user has few enough.
CREATE OR REPLACE FUNCTION job_enqueue_child(
    p_job uuid, p_token uuid, p_type text, p_version smallint, p_queue text, p_priority smallint, p_max_attempts integer,
    p_payload jsonb, p_run_at timestamptz, p_expires_at timestamptz, p_idempotency_key text,
    p_unique_for interval DEFAULT NULL, p_unique_while text DEFAULT NULL, p_concurrency_key text DEFAULT NULL)
RETURNS TABLE (job_id uuid, verdict text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    parent record := claimed_job(p_job, p_token);
BEGIN
    -- The user's, not the job's: jobs that ask for jobs like themselves would have as many as there are of them. Without
    -- a lock, which a handler would hold for as long as it works: jobs that run at once may each see the same room.
    IF (SELECT count(*) FROM (SELECT FROM background_jobs j
                              WHERE j.user_id = parent.user_id AND j.finished_at IS NULL
                              LIMIT 1000) AS open) >= 1000 THEN
        RAISE EXCEPTION 'a user who has 1000 jobs that have not ended gets no more from a job; let some end first'
            USING ERRCODE = 'TU003';
    END IF;
    RETURN QUERY SELECT e.job_id, e.verdict FROM job_enqueue(
        p_type, p_version, p_queue, parent.backend, p_priority, p_max_attempts, p_payload, parent.user_id, p_run_at,
        p_expires_at, p_idempotency_key, parent.correlation_id, parent.trace_context, p_job, NULL, NULL, p_unique_for, false,
        p_unique_while, p_concurrency_key) AS e;
END $$;
