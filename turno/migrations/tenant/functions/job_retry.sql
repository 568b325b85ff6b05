-- Create a job that continues an ended job and skips what the ledger of that job records as done; a second call returns the
-- first one's id. With p_user only a job of that user is found. The new job counts against the limits of the old job's
-- user, as a submission does. A key that is unique while its job is open passes to the new job; while another job of the
-- key is open, the old job is not retryable.
CREATE OR REPLACE FUNCTION job_retry(p_job uuid, p_user text, p_backend text, p_correlation_id text, p_pending_limit integer,
                          p_day_limits bigint[])
RETURNS TABLE (job_id uuid, verdict text, exceeded text, retry_in double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    old background_jobs;
    taken record;
    own_tenant integer := turno.tenant_of(current_user);
    due timestamptz := clock_timestamp();
BEGIN
    SELECT * INTO old FROM background_jobs j WHERE j.id = p_job AND (p_user IS NULL OR j.user_id = p_user) FOR UPDATE;
    IF p_pending_limit IS NOT NULL THEN
        -- One user's submissions take turns, or two at once would both see room for one.
        PERFORM pg_advisory_xact_lock(own_tenant, hashtext(old.user_id));
    END IF;
    IF old.id IS NULL THEN
        verdict := 'unknown';
    ELSIF old.successor_id IS NOT NULL THEN
        job_id := old.successor_id;
        verdict := 'replayed';
    ELSIF old.finished_at IS NULL
          OR old.unique_while = 'open' AND EXISTS (SELECT FROM key_holder(old.user_id, old.type, old.idempotency_key))
          OR NOT (unfinished(p_job) OR EXISTS (SELECT FROM background_job_parts b
                                               WHERE b.job_id = p_job AND unfinished(b.part_id))) THEN
        verdict := 'not_retryable';
    ELSIF p_pending_limit IS NOT NULL AND quota_reached(old.user_id, p_pending_limit) THEN
        verdict := 'quota';
    ELSE
        IF p_day_limits IS NOT NULL THEN
            taken := turno.submission_take(own_tenant, old.user_id, old.type, pg_column_size(old.payload), p_day_limits);
            exceeded := taken.exceeded;
            retry_in := taken.retry_in;
            IF exceeded IS NOT NULL THEN
                verdict := 'limit';
                RETURN NEXT;
                RETURN;
            END IF;
        END IF;
        INSERT INTO background_jobs (type, version, queue, priority, payload, payload_hash, user_id, correlation_id,
                                     trace_context, max_attempts, run_at, parent_id, concurrency_key, key_position,
                                     idempotency_key, unique_while)
        VALUES (old.type, old.version, old.queue, old.priority, old.payload, old.payload_hash,
                old.user_id, coalesce(p_correlation_id, old.correlation_id), old.trace_context, old.max_attempts, due, p_job,
                old.concurrency_key, old.key_position,
                CASE old.unique_while WHEN 'open' THEN old.idempotency_key END, nullif(old.unique_while, 'for ever'))
        ON CONFLICT DO NOTHING
        RETURNING id INTO job_id;
        IF job_id IS NULL THEN  -- another transaction has just enqueued a job of its unique key
            verdict := 'not_retryable';
            RETURN NEXT;
            RETURN;
        END IF;
        INSERT INTO background_job_items (job_id, key, state, ref)
        SELECT job_retry.job_id, i.key, 'skipped', i.ref FROM background_job_items i
        WHERE i.job_id = p_job AND i.state IN ('done', 'skipped');
        -- What the old job committed with its checkpoint is not done again.
        INSERT INTO background_job_checkpoints (job_id, state)
        SELECT job_retry.job_id, c.state FROM background_job_checkpoints c WHERE c.job_id = p_job;
        INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, attempt,
                                   concurrency_key, key_position)
        VALUES (job_retry.job_id, own_tenant, old.queue, old.type, old.version, old.priority, due,
                CASE WHEN old.concurrency_key IS NULL THEN 'ready' ELSE 'scheduled' END, p_backend, 0, old.concurrency_key,
                old.key_position);
        -- With its ticket there, those behind it in an order wait for it, and no longer for the dead letter.
        UPDATE background_jobs SET successor_id = job_retry.job_id WHERE id = p_job;
        UPDATE background_jobs_dead_letter d SET replayed_at = clock_timestamp(), replayed_as = job_retry.job_id
        WHERE d.job_id = p_job AND d.replayed_at IS NULL;
        UPDATE turno.dead_letters d SET closed_at = clock_timestamp(), closed_as = 'replayed' WHERE d.job_id = p_job;
        verdict := 'accepted';
    END IF;
    RETURN NEXT;
END $$;
