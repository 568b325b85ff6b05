-- Many jobs of one type (job_enqueue is for one), at the word of code that is trusted to ask for any number: each with its
-- id, in their order.
--   accepted: a new job.  replayed: the job that is there under this key.  conflict: the key stands for another request.
--   quota: none was made, or its user would have more than p_pending_limit open.
--   run_at: none was made, because it is more than a year ahead or a day past.
-- Takes no turn with the user's other submissions, and is not counted into a day: both would hold up POST for as long as
-- the caller's transaction stays open.
CREATE OR REPLACE FUNCTION jobs_enqueue(
    p_type text, p_version smallint, p_queue text, p_backend text, p_priority smallint, p_max_attempts integer,
    p_payloads jsonb[], p_keys text[], p_user text, p_run_at timestamptz, p_unique_for interval, p_pending_limit integer,
    p_unique_while text, p_concurrency_keys text[])
RETURNS TABLE (n bigint, job_id uuid, verdict text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan SET row_security = on AS $$
#variable_conflict use_column
DECLARE
    due timestamptz := coalesce(p_run_at, clock_timestamp());
    keys text[] := p_keys;
    hashes bytea[];
    fresh record;  -- those that stand for no job yet
    wanted integer := cardinality(p_payloads);
    made_n bigint[];
    made_id uuid[];
    refused text;
BEGIN
    IF keys IS NULL AND (p_unique_for IS NOT NULL OR p_unique_while IS NOT NULL) THEN
        keys := ARRAY(SELECT payload_key(p.payload) FROM unnest(p_payloads) WITH ORDINALITY AS p (payload, n) ORDER BY p.n);
    END IF;
    IF keys IS NOT NULL THEN
        hashes := ARRAY(SELECT asked_hash(p.payload, p_priority, p_run_at, NULL)
                        FROM unnest(p_payloads) WITH ORDINALITY AS p (payload, n) ORDER BY p.n);
        PERFORM key_expire(p_user, p_type, keys, p_unique_for, p_unique_while);
        SELECT array_agg(w.n ORDER BY w.n) AS n, array_agg(w.payload ORDER BY w.n) AS payloads,
               array_agg(w.key ORDER BY w.n) AS keys, array_agg(w.hash ORDER BY w.n) AS hashes,
               array_agg(w.line ORDER BY w.n) AS lines
        INTO fresh
        FROM unnest(p_payloads, keys, hashes, p_concurrency_keys) WITH ORDINALITY AS w (payload, key, hash, line, n)
        WHERE NOT EXISTS (SELECT FROM key_holder(p_user, p_type, w.key));
        wanted := coalesce(cardinality(fresh.n), 0);
    END IF;
    IF wanted > 0 THEN
        IF p_run_at NOT BETWEEN clock_timestamp() - interval '1 day' AND clock_timestamp() + interval '366 days' THEN
            refused := 'run_at';
        ELSIF p_pending_limit IS NOT NULL
              AND (wanted > p_pending_limit OR quota_reached(p_user, p_pending_limit - wanted + 1)) THEN
            refused := 'quota';
        END IF;
        IF refused IS NOT NULL THEN
            RETURN QUERY SELECT 1::bigint, NULL::uuid, refused;
            RETURN;
        END IF;
    END IF;
    IF keys IS NULL THEN
        RETURN QUERY SELECT i.n, i.job_id, 'accepted' FROM jobs_insert(
            p_type, p_version, p_queue, p_backend, p_priority, p_max_attempts, p_payloads, NULL, NULL,
            p_user, due, p_concurrency_keys, NULL) AS i;
        RETURN;
    END IF;
    IF wanted > 0 THEN
        SELECT array_agg(fresh.n[i.n]), array_agg(i.job_id) INTO made_n, made_id
        FROM jobs_insert(
            p_type, p_version, p_queue, p_backend, p_priority, p_max_attempts, fresh.payloads, fresh.keys, fresh.hashes,
            p_user, due, fresh.lines, p_unique_while) AS i;
    END IF;
    IF made_n IS NULL THEN
        -- As in job_enqueue: the commit has to wait for a standby.
        PERFORM pg_logical_emit_message(true, 'turno', '');
    END IF;
    -- A key may have come twice, or somebody was faster with it and has committed: then its job is that one.
    RETURN QUERY
    SELECT m.n, m.job_id, 'accepted' FROM unnest(made_n, made_id) AS m (n, job_id)
    UNION ALL
    SELECT w.n, j.job_id, CASE WHEN j.payload_hash = w.hash THEN 'replayed' ELSE 'conflict' END
    FROM unnest(keys, hashes) WITH ORDINALITY AS w (key, hash, n)
    LEFT JOIN unnest(made_n) AS m (n) ON m.n = w.n
    CROSS JOIN LATERAL key_holder(p_user, p_type, w.key) AS j
    WHERE m.n IS NULL
    ORDER BY 1;
END $$;

-- Insert jobs of one type, in step with their keys, and a ticket for each. One whose key is taken is left out; `n` says
-- which of them each new job is.
CREATE OR REPLACE FUNCTION jobs_insert(
    p_type text, p_version smallint, p_queue text, p_backend text, p_priority smallint, p_max_attempts integer,
    p_payloads jsonb[], p_keys text[], p_hashes bytea[], p_user text, p_due timestamptz, p_lines text[], p_unique_while text)
RETURNS TABLE (n bigint, job_id uuid) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    WITH wanted AS MATERIALIZED (
        SELECT turno.uuid_v7() AS id, w.payload, w.key, w.hash, nullif(w.line, '')::turno.concurrency_key AS line, w.n
        FROM unnest(p_payloads, p_keys, p_hashes, p_lines) WITH ORDINALITY AS w (payload, key, hash, line, n)
    ), made AS (
        INSERT INTO background_jobs (id, type, version, queue, priority, payload, payload_hash, user_id,
                                     idempotency_key, max_attempts, run_at, concurrency_key, unique_while)
        SELECT w.id, p_type, p_version, p_queue, p_priority, w.payload, w.hash, p_user, w.key, p_max_attempts, p_due, w.line,
               p_unique_while
        FROM wanted w
        ON CONFLICT DO NOTHING
        RETURNING id, concurrency_key
    ), offered AS (
        INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, attempt,
                                   concurrency_key)
        SELECT m.id, turno.tenant_of(current_user), p_queue, p_type, p_version, p_priority, p_due,
               CASE WHEN p_due > clock_timestamp() OR m.concurrency_key IS NOT NULL THEN 'scheduled' ELSE 'ready' END,
               p_backend, 0, m.concurrency_key
        FROM made m
    )
    SELECT w.n, w.id FROM made m JOIN wanted w USING (id) ORDER BY w.n;
END $$;
