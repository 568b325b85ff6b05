-- An operator's command on these jobs: each job is changed by its guarded function or skipped, with a verdict. A job
-- that another session has locked for longer than a moment is skipped, too. How many were changed is on record with it.
-- p_command: retry, discard, cancel, reprioritise, reschedule. p_detail is the further text of the record.
CREATE OR REPLACE FUNCTION jobs_command(
    p_command text, p_jobs uuid[], p_by text, p_backend text, p_priority smallint, p_run_at timestamptz, p_detail jsonb,
    p_correlation_id text, p_pending_limit integer, p_day_limits jsonb)
RETURNS TABLE (job_id uuid, verdict text, made uuid, exceeded text, retry_in double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = '200ms' AS $$
DECLARE
    changed integer := 0;
BEGIN
    -- In the order of their ids, the lock order of all functions that lock several tickets.
    FOR job_id IN SELECT DISTINCT j FROM unnest(p_jobs) AS j ORDER BY j LOOP
        made := NULL;
        exceeded := NULL;
        retry_in := NULL;
        BEGIN
            CASE p_command
                WHEN 'retry' THEN
                    SELECT r.verdict, r.job_id, r.exceeded, r.retry_in INTO verdict, made, exceeded, retry_in
                    FROM job_retry(job_id, NULL, p_backend, p_correlation_id, p_pending_limit, p_day_limits) AS r;
                WHEN 'discard' THEN verdict := job_discard(job_id, p_by);
                WHEN 'cancel' THEN verdict := job_cancel(job_id, NULL, coalesce(p_detail ->> 'reason', 'cancelled by an operator'));
                WHEN 'reprioritise' THEN verdict := job_reorder(job_id, p_priority, NULL);
                WHEN 'reschedule' THEN verdict := job_reorder(job_id, NULL, coalesce(p_run_at, clock_timestamp()));
            END CASE;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            verdict := 'locked';
        END;
        changed := changed + (verdict IN ('accepted', 'discarded', 'cancelled', 'requested', 'changed'))::integer;
        RETURN NEXT;
    END LOOP;
    IF changed > 0 THEN
        INSERT INTO turno.operator_acts (actor, action, jobs, detail, correlation_id)
        VALUES (p_by, p_command, changed,
                CASE WHEN cardinality(p_jobs) = 1 THEN jsonb_build_object('job', p_jobs[1]) ELSE '{}' END || coalesce(p_detail, '{}'),
                p_correlation_id);
    END IF;
END $$;
