-- Insert jobs with their tickets in the caller's transaction; no other function inserts a job. Returns a row for each job, in
-- their order.
--   accepted: a new job.  replayed: the job that the key identifies, with the same request.
--   conflict: the key identifies another request.
-- Or one row, and no job is inserted:
--   run_at: p_beside, and a job is due more than a year ahead or a day ago. POST checks this before.
--   quota: the user would have more than p_pending_limit open jobs.
--   limit: a limit of the user, the tenant or the type is reached: `exceeded`, for the next `retry_in` seconds.
-- The jobs of a set have one backend, one awaited_by and, with limits, one user and one type. p_beside: in a transaction of
-- the application, which may stay open and must not delay POST. p_named: jobs as JSON objects by the names of their fields,
-- in place of p_jobs: the role of the API sees no type of the schema turno. p_command_limits: a POST, whose single statement
-- also counts the request against these limits of commands.
-- A job in the own queue of its type waits in the queue of its tenant instead, if the type allows that queue.
CREATE OR REPLACE FUNCTION jobs_enqueue(
    p_jobs turno.new_job[], p_named jsonb DEFAULT NULL, p_pending_limit integer DEFAULT NULL,
    p_day_limits jsonb DEFAULT NULL, p_beside boolean DEFAULT false, p_command_limits jsonb DEFAULT NULL)
RETURNS TABLE (n bigint, job_id uuid, verdict text, exceeded text, retry_in double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan SET row_security = on AS $$
#variable_conflict use_column
DECLARE
    own_tenant integer := turno.tenant_of(current_user);
    own_queue text := turno.tenant_queue(own_tenant);
    job turno.new_job;
    keyed boolean := false;
    expiring boolean := false;
    tried boolean := false;
    wanted turno.new_job[];  -- jobs whose key identifies no job
    bytes bigint := 0;
    far boolean := false;
    inserted integer := 0;
    amount integer;
    answers uuid[];
    verdicts text[];
BEGIN
    IF p_named IS NOT NULL THEN
        p_jobs := ARRAY(SELECT j FROM jsonb_populate_recordset(NULL::turno.new_job, p_named) AS j);
    END IF;
    job := p_jobs[1];
    IF p_command_limits IS NOT NULL THEN
        PERFORM set_config('lock_timeout', '1s', true);
        SELECT t.exceeded, t.retry_in INTO exceeded, retry_in
        FROM turno.rate_take(own_tenant, job.user_id, 60, p_command_limits) AS t;
        IF exceeded IS NOT NULL THEN
            n := 1;
            verdict := 'limit';
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    IF p_pending_limit IS NOT NULL AND NOT p_beside THEN
        -- Submissions of a user take turns; otherwise two concurrent ones would both find room for one job.
        PERFORM pg_advisory_xact_lock(own_tenant, hashtext(job.user_id));
    END IF;
    FOR i IN 1 .. cardinality(p_jobs) LOOP
        job := p_jobs[i];
        job.id := turno.uuid_v7();
        IF num_nonnulls(job.idempotency_key, job.unique_for, job.unique_while) > 0 THEN
            keyed := true;
            expiring := expiring OR job.unique_for IS NOT NULL OR job.unique_while = 'open';
            job.payload_hash := coalesce(job.payload_hash, sha256(convert_to(concat_ws(
                E'\n', job.priority, coalesce(extract(epoch FROM job.run_at), 0),
                coalesce(extract(epoch FROM job.expires_at), 0), extract(epoch FROM job.run_in), job.payload), 'UTF8')));
            job.idempotency_key := coalesce(
                job.idempotency_key, 'payload:' || encode(sha256(convert_to(job.payload::text, 'UTF8')), 'hex'));
        END IF;
        IF own_queue IS NOT NULL AND EXISTS (
            SELECT FROM turno.handlers h
            WHERE h.type = job.type AND h.queue = job.queue AND own_queue = ANY (h.other_queues)) THEN
            job.queue := own_queue;
        END IF;
        job.run_at := coalesce(job.run_at, clock_timestamp() + coalesce(job.run_in, interval '0'));
        p_jobs[i] := job;
    END LOOP;
    IF expiring THEN
        -- Release keys that no longer identify a job for this submission: of jobs older than unique_for, or of ended jobs if
        -- the new job is to be unique while it is open. A job that was itself submitted as unique keeps its key; the unique
        -- index decides.
        UPDATE background_jobs j SET idempotency_key = NULL
        FROM (SELECT DISTINCT w.user_id, w.type, w.idempotency_key, w.unique_for, w.unique_while
              FROM unnest(p_jobs) AS w ORDER BY 1, 2, 3) AS w
        WHERE j.user_id = w.user_id AND j.type = w.type AND j.idempotency_key = w.idempotency_key
          -- In place of IS NULL, from which the planner does not infer the condition of the unique index.
          AND j.unique_while IS DISTINCT FROM 'open' AND j.unique_while IS DISTINCT FROM 'for ever'
          AND (j.created_at <= clock_timestamp() - w.unique_for OR w.unique_while = 'open' AND j.finished_at IS NOT NULL);
    END IF;
    LOOP
        IF keyed THEN
            SELECT array_agg(coalesce(h.job_id, CASE WHEN tried AND w.idempotency_key IS NULL THEN w.id END)
                             ORDER BY w.ordinality),
                   array_agg(CASE WHEN h.job_id IS NULL OR h.job_id = w.id THEN 'accepted'
                                  WHEN h.payload_hash = w.payload_hash THEN 'replayed' ELSE 'conflict' END
                             ORDER BY w.ordinality)
            INTO answers, verdicts
            FROM unnest(p_jobs) WITH ORDINALITY AS w
            LEFT JOIN LATERAL key_holder(w.user_id, w.type, w.idempotency_key) AS h ON true;
        END IF;
        wanted := '{}';
        FOR i IN 1 .. cardinality(p_jobs) LOOP
            CONTINUE WHEN answers[i] IS NOT NULL;
            job := p_jobs[i];
            wanted := wanted || job;
            bytes := bytes + pg_column_size(job.payload);
            far := far OR p_beside AND job.run_at NOT BETWEEN clock_timestamp() - interval '1 day'
                                                          AND clock_timestamp() + interval '366 days';
        END LOOP;
        amount := cardinality(wanted);
        EXIT WHEN amount = 0;
        IF NOT tried THEN
            IF far THEN
                verdict := 'run_at';
            ELSIF p_pending_limit IS NOT NULL AND (
                amount > p_pending_limit OR quota_reached(job.user_id, p_pending_limit - amount + 1)) THEN
                verdict := 'quota';
            ELSIF p_day_limits IS NOT NULL THEN
                SELECT t.exceeded, t.retry_in INTO exceeded, retry_in
                FROM turno.rate_take(own_tenant, job.user_id, 86400, p_day_limits, job.type, amount, bytes) AS t;
                verdict := CASE WHEN exceeded IS NOT NULL THEN 'limit' END;
            END IF;
            IF verdict IS NOT NULL THEN
                n := 1;
                RETURN NEXT;
                RETURN;
            END IF;
        END IF;
        tried := true;
        WITH made AS (
            INSERT INTO background_jobs (id, type, version, queue, priority, payload, payload_hash, user_id, correlation_id,
                                         trace_context, idempotency_key, max_attempts, run_at, expires_at, parent_id,
                                         concurrency_key, unique_while, key_position, origin, awaited_by)
            SELECT w.id, w.type, w.version, w.queue, w.priority, w.payload, w.payload_hash, w.user_id, w.correlation_id,
                   w.trace_context, w.idempotency_key, w.max_attempts, w.run_at, w.expires_at, w.parent_id,
                   nullif(w.concurrency_key, '')::turno.concurrency_key, w.unique_while, w.key_position, w.origin,
                   w.awaited_by
            FROM unnest(wanted) AS w
            -- A key that a concurrent transaction has used; or, in a second round, a job of the first round.
            ON CONFLICT DO NOTHING
            RETURNING id, type, version, queue, priority, run_at, concurrency_key, key_position
        ), ticket AS (
            INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, attempt,
                                       concurrency_key, key_position, awaited_by)
            SELECT j.id, own_tenant, j.queue, j.type, j.version, j.priority, j.run_at,
                   turno.due_state(j.run_at, j.concurrency_key), job.backend, 0, j.concurrency_key, j.key_position,
                   job.awaited_by
            FROM made j
        )
        SELECT count(*) INTO amount FROM made;
        inserted := inserted + amount;
        EXIT WHEN inserted = cardinality(p_jobs);
    END LOOP;
    IF inserted = 0 THEN
        -- Without a WAL record this commit would not wait for a standby that may not have received the first one's yet.
        PERFORM pg_logical_emit_message(true, 'turno', '');
    END IF;
    FOR i IN 1 .. cardinality(p_jobs) LOOP
        n := i;
        job_id := coalesce(answers[i], p_jobs[i].id);
        verdict := coalesce(verdicts[i], 'accepted');
        RETURN NEXT;
    END LOOP;
END $$;

-- The job that a key identifies, kept or purged. The planner inserts the body into the calling statement.
CREATE OR REPLACE FUNCTION key_holder(p_user text, p_type text, p_key text) RETURNS TABLE (job_id uuid, payload_hash bytea)
LANGUAGE sql STABLE
BEGIN ATOMIC
    -- A range in the order of this index: with equality, a plan made while the table was empty would use the index of
    -- users, and read all jobs of the user.
    (SELECT j.id, j.payload_hash FROM background_jobs j
     WHERE j.user_id = p_user AND j.type = p_type AND j.idempotency_key BETWEEN p_key AND p_key
       AND (j.finished_at IS NULL OR j.unique_while IS DISTINCT FROM 'open')
     ORDER BY j.idempotency_key LIMIT 1)
    UNION ALL
    SELECT k.job_id, k.payload_hash FROM background_job_keys k
    WHERE k.user_id = p_user AND k.type = p_type AND k.idempotency_key = p_key
    LIMIT 1;
END;

-- Whether a user has as many jobs waiting and running as allowed. The caller holds the user's turn.
CREATE OR REPLACE FUNCTION quota_reached(p_user text, p_limit integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    -- Jobs parked for a person do not count: their user could never free the place.
    RETURN (SELECT count(*) FROM (SELECT FROM background_jobs
                                  WHERE user_id = p_user AND finished_at IS NULL AND run_at < 'infinity'
                                  LIMIT p_limit) AS open) >= p_limit;
END $$;
