-- Create a job that continues an ended job and skips the items in the ledger of that job that are done or have a lasting
-- error; a second call returns the first call's id. With p_user only a job of that user is found. The new job counts against the limits of the old
-- job's user, as a submission does. A key that is unique while its job is open passes to the new job; while another job
-- of the key is open, the old job is not retryable. p_completed: a completed job runs again, too, from its beginning but
-- for the done items; a part only with the job that waits for it.
CREATE OR REPLACE FUNCTION job_retry(p_job uuid, p_user text, p_backend text, p_correlation_id text, p_pending_limit integer,
                          p_day_limits jsonb, p_completed boolean DEFAULT false)
RETURNS TABLE (job_id uuid, verdict text, exceeded text, retry_in double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    old background_jobs;
    new turno.new_job;
    is_unfinished boolean;
BEGIN
    SELECT * INTO old FROM background_jobs j WHERE j.id = p_job AND (p_user IS NULL OR j.user_id = p_user) FOR UPDATE;
    IF old.id IS NULL THEN
        verdict := 'unknown';
        RETURN NEXT;
        RETURN;
    END IF;
    is_unfinished := unfinished(p_job) OR EXISTS (SELECT FROM background_jobs b
                                                  WHERE b.awaited_by = p_job AND unfinished(b.id));
    IF old.successor_id IS NOT NULL THEN
        job_id := old.successor_id;
        verdict := 'replayed';
    ELSIF old.finished_at IS NULL OR NOT (is_unfinished OR p_completed AND old.awaited_by IS NULL) THEN
        verdict := 'not_retryable';
    ELSE
        -- Equal names of fields and columns; only a key that is unique while its job is open passes to the new job.
        new := jsonb_populate_record(NULL::turno.new_job, to_jsonb(old) - '{run_at,expires_at,awaited_by}'::text[]);
        new.unique_while := nullif(old.unique_while, 'for ever');
        new.idempotency_key := CASE old.unique_while WHEN 'open' THEN old.idempotency_key END;
        new.backend := p_backend;
        new.parent_id := p_job;
        new.correlation_id := coalesce(p_correlation_id, old.correlation_id);
        SELECT e.job_id, e.verdict, e.exceeded, e.retry_in INTO job_id, verdict, exceeded, retry_in
        FROM jobs_enqueue(ARRAY[new], NULL, p_pending_limit, p_day_limits) AS e;
        IF verdict IN ('replayed', 'conflict') THEN  -- another job of its unique key is open
            job_id := NULL;
            verdict := 'not_retryable';
        END IF;
    END IF;
    IF verdict = 'accepted' THEN
        INSERT INTO background_job_items (job_id, key, state, ref)
        SELECT job_retry.job_id, i.key, 'skipped', i.ref FROM background_job_items i
        WHERE i.job_id = p_job AND (i.state IN ('done', 'skipped') OR i.error ? 'lasting');
        -- The new job does not repeat work that the old job committed with its checkpoint.
        INSERT INTO background_job_checkpoints (job_id, state)
        SELECT job_retry.job_id, c.state FROM background_job_checkpoints c WHERE c.job_id = p_job AND is_unfinished;
        -- Now that its ticket exists, later jobs of an order wait for it, and no longer for the dead letter.
        UPDATE background_jobs SET successor_id = job_retry.job_id WHERE id = p_job;
        UPDATE background_jobs_dead_letter d SET replayed_at = clock_timestamp(), replayed_as = job_retry.job_id
        WHERE d.job_id = p_job AND d.replayed_at IS NULL;
        UPDATE turno.dead_letters d SET closed_at = clock_timestamp(), closed_as = 'replayed' WHERE d.job_id = p_job;
    END IF;
    RETURN NEXT;
END $$;

-- Whether a job can be retried: it failed, was cancelled, or has a failed item without a lasting error.
CREATE OR REPLACE FUNCTION unfinished(p_job uuid) RETURNS boolean LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM background_jobs j WHERE j.id = p_job AND j.status IN ('failed', 'cancelled'))
    OR EXISTS (SELECT FROM background_job_items i WHERE i.job_id = p_job AND i.state = 'failed' AND NOT i.error ? 'lasting');
