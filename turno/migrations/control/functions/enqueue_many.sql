-- Enqueue many jobs of one type in the caller's transaction, all or none: payloads are an array of JSON, with as many keys
-- or none. Answers in their order.
CREATE OR REPLACE FUNCTION enqueue_many(
    tenant text, type text, payloads jsonb, run_at timestamptz DEFAULT NULL, priority text DEFAULT 'normal',
    keys text[] DEFAULT NULL, unique_for interval DEFAULT NULL, user_id text DEFAULT NULL,
    version smallint DEFAULT NULL)
RETURNS TABLE (job_id uuid, is_new boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET jit = off SET enable_seqscan = off AS $$
BEGIN
    IF jsonb_typeof(payloads) IS DISTINCT FROM 'array' OR payloads @? '$[*] ? (@.type() <> "object")' THEN
        PERFORM not_enqueued('TU012', 'payloads are a JSON array of objects', 'name their fields: [{"month": "2026-06"}]');
    END IF;
    RETURN QUERY SELECT e.job_id, e.is_new FROM jobs_accept(
        tenant, type,
        ARRAY(SELECT p.payload FROM jsonb_array_elements(payloads) WITH ORDINALITY AS p (payload, n) ORDER BY p.n),
        run_at, priority, keys, unique_for, user_id, version) AS e;
END $$;
