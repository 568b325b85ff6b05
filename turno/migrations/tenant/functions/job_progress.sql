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

-- The progress of a job with items that other jobs process: the number of items, and of items done before.
CREATE OR REPLACE FUNCTION progress_begin(p_job uuid, p_done integer, p_total integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO background_job_progress_rows AS p (job_id, done, total) VALUES (p_job, p_done, p_total)
    ON CONFLICT (job_id) DO UPDATE
    SET done = greatest(p.done, excluded.done), total = excluded.total, revision = p.revision + 1;
END $$;

-- A chunk of the ledger, in the transaction that did the work: items are an array of
-- {key, state, ref, error}. Progress follows from the ledger. Returns whether to stop.
CREATE OR REPLACE FUNCTION job_items(p_job uuid, p_token uuid, p_items jsonb, p_total integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    stop boolean := claim_hold(p_job, p_token);
    done_now integer;
    failed_now integer;
    entered bigint;
BEGIN
    INSERT INTO background_job_items (job_id, key, state, ref, error)
    SELECT p_job, i.key, i.state, i.ref, i.error
    FROM jsonb_to_recordset(p_items) AS i (key text, state text, ref text, error jsonb);
    SELECT count(*) FILTER (WHERE i.state = 'done'), count(*) FILTER (WHERE i.state = 'failed')
    INTO done_now, failed_now
    FROM jsonb_to_recordset(p_items) AS i (state text);
    INSERT INTO background_job_progress_rows AS p (job_id, done, failed, total) VALUES (p_job, done_now, failed_now, p_total)
    ON CONFLICT (job_id) DO UPDATE
    SET done = p.done + excluded.done, failed = p.failed + excluded.failed, total = excluded.total,
        revision = p.revision + 1, updated_at = clock_timestamp()
    RETURNING p.done::bigint + p.failed INTO entered;
    -- A job is purged in one transaction, with all of its ledger.
    IF entered > 1000000 THEN
        RAISE EXCEPTION 'the ledger of a job has room for a million items; give the rest to another job' USING ERRCODE = 'TU003';
    END IF;
    RETURN stop;
END $$;
