-- accepted: a new job.  replayed: the first job under this key, with the same body.
-- conflict: the key was used with another body.  quota: the user has enough jobs waiting.
CREATE OR REPLACE FUNCTION job_enqueue(
    p_type text, p_version smallint, p_queue text, p_backend text, p_priority smallint, p_max_attempts integer,
    p_payload jsonb, p_payload_hash bytea, p_user text, p_run_at timestamptz, p_expires_at timestamptz,
    p_idempotency_key text, p_correlation_id text, p_trace_context text, p_parent uuid, p_pending_limit integer)
RETURNS TABLE (job_id uuid, verdict text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    due timestamptz := coalesce(p_run_at, clock_timestamp());
    first_hash bytea;
BEGIN
    IF quota_reached(p_user, p_pending_limit) THEN
        verdict := 'quota';
    END IF;
    LOOP
        IF verdict IS NULL THEN
            INSERT INTO background_jobs (type, version, queue, priority, payload, payload_hash, user_id, correlation_id,
                                         trace_context, idempotency_key, max_attempts, run_at, expires_at, parent_id)
            VALUES (p_type, p_version, p_queue, p_priority, p_payload, p_payload_hash, p_user, p_correlation_id,
                    p_trace_context, p_idempotency_key, p_max_attempts, due, p_expires_at, p_parent)
            ON CONFLICT (user_id, type, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
            RETURNING id INTO job_id;
            IF FOUND THEN
                verdict := 'accepted';
                PERFORM ticket_put(job_id, p_queue, p_type, p_version, p_priority, due, p_backend, 0);
                EXIT;
            END IF;
        END IF;
        -- A statement of its own: its snapshot sees the winner that the insert waited for.
        SELECT id, payload_hash INTO job_id, first_hash FROM background_jobs
        WHERE user_id = p_user AND type = p_type AND idempotency_key = p_idempotency_key;
        IF FOUND THEN
            verdict := CASE WHEN first_hash = p_payload_hash THEN 'replayed' ELSE 'conflict' END;
        END IF;
        -- Neither inserted nor found: the first job was purged between the two, and the key is free again.
        EXIT WHEN verdict IS NOT NULL;
    END LOOP;
    RETURN NEXT;
END $$;
