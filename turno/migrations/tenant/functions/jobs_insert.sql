-- Insert jobs of one type, in step with their keys, and a ticket for each: every way in ends here. One whose key is taken
-- is left out; `n` says which of them each new job is.
CREATE OR REPLACE FUNCTION jobs_insert(
    p_type text, p_version smallint, p_queue text, p_backend text, p_priority smallint, p_max_attempts integer,
    p_payloads jsonb[], p_keys text[], p_hashes bytea[], p_user text, p_due timestamptz, p_expires_at timestamptz,
    p_correlation_id text, p_trace_context text, p_parent uuid)
RETURNS TABLE (n bigint, job_id uuid) LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
    WITH wanted AS MATERIALIZED (
        SELECT turno.uuid_v7() AS id, w.payload, w.key, w.hash, w.n
        FROM unnest(p_payloads, p_keys, p_hashes) WITH ORDINALITY AS w (payload, key, hash, n)
    ), made AS (
        INSERT INTO background_jobs (id, type, version, queue, priority, payload, payload_hash, user_id, correlation_id,
                                     trace_context, idempotency_key, max_attempts, run_at, expires_at, parent_id)
        SELECT w.id, p_type, p_version, p_queue, p_priority, w.payload, w.hash, p_user, p_correlation_id,
               p_trace_context, w.key, p_max_attempts, p_due, p_expires_at, p_parent
        FROM wanted w
        ON CONFLICT (user_id, type, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
        RETURNING id
    ), offered AS (
        INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, attempt)
        SELECT m.id, turno.tenant_of(current_user), p_queue, p_type, p_version, p_priority, p_due,
               CASE WHEN p_due > clock_timestamp() THEN 'scheduled' ELSE 'ready' END, p_backend, 0
        FROM made m
    )
    SELECT w.n, w.id FROM made m JOIN wanted w USING (id) ORDER BY w.n;
END $$;

-- What tells whether two requests under one key ask for the same thing.
CREATE OR REPLACE FUNCTION asked_hash(p_payload jsonb, p_priority smallint, p_run_at timestamptz, p_expires_at timestamptz)
RETURNS bytea LANGUAGE sql STABLE
RETURN sha256(convert_to(concat_ws(E'\n', p_priority, coalesce(extract(epoch FROM p_run_at), 0),
                                   coalesce(extract(epoch FROM p_expires_at), 0), p_payload), 'UTF8'));

-- The key of a job that is to be unique for a while and was given none: its payload.
CREATE OR REPLACE FUNCTION payload_key(p_payload jsonb) RETURNS text LANGUAGE sql STABLE
RETURN 'payload:' || encode(sha256(convert_to(p_payload::text, 'UTF8')), 'hex');

-- A key that was to hold for a while only is free again after that; without p_for it holds for as long as its job is kept.
CREATE OR REPLACE FUNCTION key_expire(p_user text, p_type text, p_keys text[], p_for interval) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_for IS NOT NULL THEN
        UPDATE background_jobs SET idempotency_key = NULL
        WHERE user_id = p_user AND type = p_type AND idempotency_key = ANY (p_keys)
          AND created_at <= clock_timestamp() - p_for;
    END IF;
END $$;
