-- Enqueue many jobs of one type in the caller's transaction, all or none: payloads are an array of JSON, with as many keys
-- or none. Answers in their order.
CREATE OR REPLACE FUNCTION enqueue_many(
    tenant text, type text, payloads jsonb, run_at timestamptz DEFAULT NULL, priority text DEFAULT 'normal',
    keys text[] DEFAULT NULL, unique_for interval DEFAULT NULL, user_id text DEFAULT NULL,
    version smallint DEFAULT NULL, unique_while text DEFAULT NULL, concurrency_keys text[] DEFAULT NULL,
    queue text DEFAULT NULL)
RETURNS TABLE (job_id uuid, is_new boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET jit = off SET enable_seqscan = off SET row_security = on AS $$
DECLARE
    target record;
    bodies jsonb[];
    made record;
    to_run boolean := false;
    answered integer := 0;
BEGIN
    IF jsonb_typeof(payloads) IS DISTINCT FROM 'array' OR payloads @? '$[*] ? (@.type() <> "object")' THEN
        PERFORM not_enqueued('TU012', 'payloads are a JSON array of objects', 'name their fields: [{"month": "2026-06"}]');
    END IF;
    bodies := ARRAY(SELECT p.payload FROM jsonb_array_elements(payloads) WITH ORDINALITY AS p (payload, n) ORDER BY p.n);
    target := enqueue_target(tenant, type, priority, keys, unique_for, unique_while, queue, concurrency_keys);
    IF cardinality(keys) <> cardinality(bodies) OR cardinality(concurrency_keys) <> cardinality(bodies) THEN
        PERFORM not_enqueued('TU012', format('%s keys for %s payloads', coalesce(nullif(cardinality(keys), cardinality(bodies)),
                                             cardinality(concurrency_keys)), cardinality(bodies)),
                             'give each payload its key, or none a key');
    END IF;
    FOR made IN EXECUTE format('SELECT * FROM %I.jobs_enqueue($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14)', target.schema)
        USING type, coalesce(version, target.version), target.queue, target.backend, target.band, target.max_attempts,
              bodies, keys, coalesce(user_id, 'application'), run_at, unique_for,
              CASE WHEN user_id IS NOT NULL THEN target.pending_limit END, unique_while, concurrency_keys
    LOOP
        PERFORM refuse_verdict(made.verdict, made.job_id, keys[made.n], user_id, target.pending_limit, run_at)
        WHERE made.verdict <> 'accepted';
        answered := answered + 1;
        job_id := made.job_id;
        is_new := made.verdict = 'accepted';
        to_run := to_run OR is_new AND coalesce(run_at <= clock_timestamp(), true);
        RETURN NEXT;
    END LOOP;
    IF answered < cardinality(bodies) THEN
        RAISE serialization_failure USING MESSAGE = 'the job under a key went away meanwhile; try again';
    END IF;
    IF to_run THEN
        PERFORM hint_at_commit();
    END IF;
END $$;
