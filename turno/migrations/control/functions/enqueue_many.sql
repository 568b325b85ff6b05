-- Enqueue many jobs of one type in the caller's transaction, all or none: payloads are an array of JSON, with as many keys
-- or none. Answers in their order.
CREATE OR REPLACE FUNCTION enqueue_many(
    tenant text, type text, payloads jsonb, run_at timestamptz DEFAULT NULL, priority text DEFAULT 'normal',
    keys text[] DEFAULT NULL, unique_for interval DEFAULT NULL, user_id text DEFAULT NULL,
    version smallint DEFAULT NULL, unique_while text DEFAULT NULL, concurrency_keys text[] DEFAULT NULL,
    queue text DEFAULT NULL, run_in interval DEFAULT NULL)
RETURNS TABLE (job_id uuid, is_new boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT SET jit = off SET enable_seqscan = off SET row_security = on AS $$
#variable_conflict use_variable
DECLARE
    target record;
    job new_job;
    jobs new_job[] := '{}';
    amount integer;
    made record;
    to_run boolean := false;
BEGIN
    IF jsonb_typeof(payloads) IS DISTINCT FROM 'array' OR payloads @? '$[*] ? (@.type() <> "object")' THEN
        PERFORM not_enqueued('TU012', 'a payload is a JSON object, and payloads are an array of objects',
                             'name the fields of each: {"month": "2026-06"}');
    END IF;
    IF num_nonnulls(run_at, run_in) > 1 THEN
        PERFORM not_enqueued('TU012', 'run_at and run_in are both given', 'give one of them');
    END IF;
    amount := jsonb_array_length(payloads);
    target := enqueue_target(tenant, type, priority, keys, unique_for, unique_while, queue, concurrency_keys);
    IF cardinality(keys) <> amount OR cardinality(concurrency_keys) <> amount THEN
        PERFORM not_enqueued('TU012', format('%s keys for %s payloads', coalesce(nullif(cardinality(keys), amount),
                                             cardinality(concurrency_keys)), amount),
                             'give each payload its key, or none a key');
    END IF;
    job := target.job;
    job.version := coalesce(version, job.version);
    job.user_id := coalesce(user_id, 'application');
    job.run_at := run_at;
    job.run_in := run_in;
    run_at := coalesce(run_at, clock_timestamp() + run_in);
    FOR i IN 1 .. amount LOOP
        job.payload := payloads -> i - 1;
        job.idempotency_key := keys[i];
        job.concurrency_key := concurrency_keys[i];
        jobs := jobs || job;
    END LOOP;
    FOR made IN EXECUTE format('SELECT job_id, verdict, n FROM %I.jobs_enqueue($1, NULL, $2, NULL, true)', target.schema)
        USING jobs, CASE WHEN user_id IS NOT NULL THEN target.pending_limit END
    LOOP
        job_id := made.job_id;
        is_new := made.verdict = 'accepted';
        CASE made.verdict
            WHEN 'conflict' THEN
                PERFORM not_enqueued('TU013', format('the key %L stands for another request, that of job %s', keys[made.n],
                                                     job_id), 'a new request needs a new key');
            WHEN 'quota' THEN
                PERFORM not_enqueued('TU014', format('user %L would have more than %s jobs open', left(user_id, 60),
                                                     target.pending_limit),
                                     'let one end, cancel one, or raise pending_jobs_per_user of TURNO_LIMITS');
            WHEN 'run_at' THEN
                PERFORM not_enqueued('TU012', format('run_at %L is too far away', run_at),
                                     'say a time at most a year ahead and a day past');
            ELSE NULL;
        END CASE;
        to_run := to_run OR is_new;
        RETURN NEXT;
    END LOOP;
    IF to_run AND coalesce(run_at <= clock_timestamp(), true) THEN
        PERFORM hint_at_commit();
    END IF;
END $$;
