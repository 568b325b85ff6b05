-- Shown at once from the handler's second session. A plain look at the token: it must never
-- wait for the job's own transaction, which may hold the ticket. Never goes back.
CREATE OR REPLACE FUNCTION job_progress(
    p_job uuid, p_token uuid, p_done integer, p_total integer, p_message text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM FROM turno.tickets WHERE job_id = p_job AND token = p_token;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim on job % was lost; this attempt must stop', p_job USING ERRCODE = 'TU001';
    END IF;
    INSERT INTO background_job_progress_rows AS p (job_id, done, total, message)
    VALUES (p_job, p_done, p_total, shortened(p_message, 1000))
    ON CONFLICT (job_id) DO UPDATE
    SET done = greatest(p.done, excluded.done), total = greatest(p.total, excluded.total),
        message = coalesce(excluded.message, p.message), revision = p.revision + 1, updated_at = clock_timestamp();
    RETURN (SELECT cancel_requested_at IS NOT NULL FROM background_jobs WHERE id = p_job);
END $$;
