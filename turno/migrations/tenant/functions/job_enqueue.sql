-- One job, from POST, from another job, or (p_beside) from the application in a transaction of its own.
--   accepted: a new job.  replayed: the first job under this key, with the same body.
--   conflict: the key was used with another body.  quota: the user has enough jobs waiting.
--   limit: the user or the tenant has had enough today; `exceeded` says of what, and `retry_in` after how many seconds
--   there is room again.  run_at: only beside, more than a year ahead or a day past; POST has checked that before.
CREATE OR REPLACE FUNCTION job_enqueue(
    p_type text, p_version smallint, p_queue text, p_backend text, p_priority smallint, p_max_attempts integer,
    p_payload jsonb, p_user text, p_run_at timestamptz, p_expires_at timestamptz,
    p_idempotency_key text, p_correlation_id text, p_trace_context text, p_parent uuid, p_pending_limit integer,
    p_day_limits bigint[] DEFAULT NULL, p_unique_for interval DEFAULT NULL, p_beside boolean DEFAULT false,
    p_unique_while text DEFAULT NULL, p_concurrency_key text DEFAULT NULL)
RETURNS TABLE (job_id uuid, verdict text, exceeded text, retry_in double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    own_tenant integer := turno.tenant_of(current_user);
    due timestamptz := coalesce(p_run_at, clock_timestamp());
    p_key text := coalesce(p_idempotency_key, CASE WHEN p_unique_for IS NOT NULL OR p_unique_while IS NOT NULL
                                                  THEN payload_key(p_payload) END);
    line turno.concurrency_key := p_concurrency_key;
    asked bytea := CASE WHEN p_key IS NOT NULL THEN asked_hash(p_payload, p_priority, p_run_at, p_expires_at) END;
    first_hash bytea;
    taken record;
BEGIN
    IF p_pending_limit IS NOT NULL AND NOT p_beside THEN
        -- One user's submissions take turns, or two at once would both see room for one. Beside others a turn would hold
        -- up POST for as long as the caller's transaction stays open.
        PERFORM pg_advisory_xact_lock(own_tenant, hashtext(p_user));
    END IF;
    LOOP
        IF p_key IS NOT NULL THEN
            IF p_unique_for IS NOT NULL OR p_unique_while = 'open' THEN
                PERFORM key_expire(p_user, p_type, ARRAY[p_key], p_unique_for, p_unique_while);
            END IF;
            SELECT h.job_id, h.payload_hash INTO job_id, first_hash FROM key_holder(p_user, p_type, p_key) AS h;
            IF FOUND THEN
                verdict := CASE WHEN first_hash = asked THEN 'replayed' ELSE 'conflict' END;
                -- Without a WAL record this commit would not wait for a standby that may not have the first one's yet.
                PERFORM pg_logical_emit_message(true, 'turno', '');
                EXIT;
            END IF;
        END IF;
        IF p_beside AND p_run_at NOT BETWEEN clock_timestamp() - interval '1 day'
                                    AND clock_timestamp() + interval '366 days' THEN
            verdict := 'run_at';
            EXIT;
        END IF;
        IF p_pending_limit IS NOT NULL AND quota_reached(p_user, p_pending_limit) THEN
            verdict := 'quota';
            EXIT;
        END IF;
        IF p_day_limits IS NOT NULL THEN
            taken := turno.submission_take(own_tenant, p_user, p_type, pg_column_size(p_payload), p_day_limits);
            exceeded := taken.exceeded;
            retry_in := taken.retry_in;
            IF exceeded IS NOT NULL THEN
                verdict := 'limit';
                EXIT;
            END IF;
        END IF;
        INSERT INTO background_jobs (type, version, queue, priority, payload, payload_hash, user_id, correlation_id,
                                     trace_context, idempotency_key, max_attempts, run_at, expires_at, parent_id,
                                     concurrency_key, unique_while)
        VALUES (p_type, p_version, p_queue, p_priority, p_payload, asked, p_user, p_correlation_id,
                p_trace_context, p_key, p_max_attempts, due, p_expires_at, p_parent, line,
                p_unique_while)
        ON CONFLICT DO NOTHING
        RETURNING id INTO job_id;
        IF FOUND THEN
            INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, attempt,
                                       concurrency_key)
            VALUES (job_enqueue.job_id, own_tenant, p_queue, p_type, p_version, p_priority, due,
                    CASE WHEN due > clock_timestamp() OR line IS NOT NULL THEN 'scheduled' ELSE 'ready' END, p_backend, 0,
                    line);
            verdict := 'accepted';
            EXIT;
        END IF;
        -- Somebody who takes no turns, having no limit, was faster with this key: look again.
    END LOOP;
    RETURN NEXT;
END $$;

-- The job that a key stands for, kept or purged. The planner puts the body into the statement that asks.
CREATE OR REPLACE FUNCTION key_holder(p_user text, p_type text, p_key text) RETURNS TABLE (job_id uuid, payload_hash bytea)
LANGUAGE sql STABLE
BEGIN ATOMIC
    -- As a range, in the order of its own index: by equality, a plan that was made while the table was empty would take the
    -- index of users, and read all that one has.
    (SELECT j.id, j.payload_hash FROM background_jobs j
     WHERE j.user_id = p_user AND j.type = p_type AND j.idempotency_key BETWEEN p_key AND p_key
       AND (j.finished_at IS NULL OR j.unique_while IS DISTINCT FROM 'open')
     ORDER BY j.idempotency_key LIMIT 1)
    UNION ALL
    SELECT k.job_id, k.payload_hash FROM background_job_keys k
    WHERE k.user_id = p_user AND k.type = p_type AND k.idempotency_key = p_key
    LIMIT 1;
END;

-- What tells whether two requests under one key ask for the same thing.
CREATE OR REPLACE FUNCTION asked_hash(p_payload jsonb, p_priority smallint, p_run_at timestamptz, p_expires_at timestamptz)
RETURNS bytea LANGUAGE sql STABLE
RETURN sha256(convert_to(concat_ws(E'\n', p_priority, coalesce(extract(epoch FROM p_run_at), 0),
                                   coalesce(extract(epoch FROM p_expires_at), 0), p_payload), 'UTF8'));

-- The key of a job that is to be unique for a while and was given none: its payload.
CREATE OR REPLACE FUNCTION payload_key(p_payload jsonb) RETURNS text LANGUAGE sql STABLE
RETURN 'payload:' || encode(sha256(convert_to(p_payload::text, 'UTF8')), 'hex');

-- Release keys that no longer identify a job for this submission: of jobs older than p_for, or of ended jobs if the new job
-- is to be unique while it is open. A job that was itself submitted as unique keeps its key; the unique index decides.
CREATE OR REPLACE FUNCTION key_expire(p_user text, p_type text, p_keys text[], p_for interval, p_while text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_for IS NOT NULL OR p_while = 'open' THEN
        UPDATE background_jobs j SET idempotency_key = NULL
        WHERE j.user_id = p_user AND j.type = p_type AND j.idempotency_key = ANY (p_keys)
          -- In place of IS NULL, from which the planner does not infer the condition of the unique index.
          AND j.unique_while IS DISTINCT FROM 'open' AND j.unique_while IS DISTINCT FROM 'for ever'
          AND (j.created_at <= clock_timestamp() - p_for OR p_while = 'open' AND j.finished_at IS NOT NULL);
    END IF;
END $$;
