-- accepted: a new job.  replayed: the first job under this key, with the same body.
-- conflict: the key was used with another body.  quota: the user has enough jobs waiting.
-- limit: the user or the tenant has had enough today; `exceeded` says of what, and `retry_in` after how many seconds
-- there is room again.
CREATE OR REPLACE FUNCTION job_enqueue(
    p_type text, p_version smallint, p_queue text, p_backend text, p_priority smallint, p_max_attempts integer,
    p_payload jsonb, p_user text, p_run_at timestamptz, p_expires_at timestamptz,
    p_idempotency_key text, p_correlation_id text, p_trace_context text, p_parent uuid, p_pending_limit integer,
    p_day_limits bigint[] DEFAULT NULL, p_unique_for interval DEFAULT NULL)
RETURNS TABLE (job_id uuid, verdict text, exceeded text, retry_in double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    own_tenant integer := turno.tenant_of(current_user);
    due timestamptz := coalesce(p_run_at, clock_timestamp());
    p_key text := coalesce(p_idempotency_key, CASE WHEN p_unique_for IS NOT NULL THEN payload_key(p_payload) END);
    asked bytea := CASE WHEN p_key IS NOT NULL THEN asked_hash(p_payload, p_priority, p_run_at, p_expires_at) END;
    first background_jobs;
    taken record;
BEGIN
    IF p_pending_limit IS NOT NULL THEN
        -- One user's submissions take turns, or two at once would both see room for one.
        PERFORM pg_advisory_xact_lock(own_tenant, hashtext(p_user));
    END IF;
    LOOP
        IF p_key IS NOT NULL THEN
            PERFORM key_expire(p_user, p_type, ARRAY[p_key], p_unique_for);
            SELECT * INTO first FROM background_jobs
            -- As a range, in the order of its own index: see jobs_enqueue.
            WHERE user_id = p_user AND type = p_type AND idempotency_key BETWEEN p_key AND p_key
            ORDER BY idempotency_key LIMIT 1;
            IF FOUND THEN
                job_id := first.id;
                verdict := CASE WHEN first.payload_hash = asked THEN 'replayed' ELSE 'conflict' END;
                EXIT;
            END IF;
        END IF;
        IF p_pending_limit IS NOT NULL AND quota_reached(p_user, p_pending_limit) THEN
            verdict := 'quota';
            EXIT;
        END IF;
        IF p_day_limits IS NOT NULL THEN
            taken := turno.job_take(own_tenant, p_user, pg_column_size(p_payload), p_day_limits);
            exceeded := taken.exceeded;
            retry_in := taken.retry_in;
            IF exceeded IS NOT NULL THEN
                verdict := 'limit';
                EXIT;
            END IF;
        END IF;
        SELECT i.job_id INTO job_id FROM jobs_insert(
            p_type, p_version, p_queue, p_backend, p_priority, p_max_attempts, ARRAY[p_payload], ARRAY[p_key],
            ARRAY[asked], p_user, due, p_expires_at, p_correlation_id, p_trace_context, p_parent) AS i;
        IF FOUND THEN
            verdict := 'accepted';
            EXIT;
        END IF;
        -- Somebody who takes no turns, having no limit, was faster with this key: look again.
    END LOOP;
    RETURN NEXT;
END $$;
