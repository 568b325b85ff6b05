-- Complete all of these or none. p_mark is what the executor's BEGIN has set; p_run_ms is how long each one's
-- handler took, for the metrics: their attempts are as long as the group's transaction.
CREATE OR REPLACE FUNCTION jobs_complete(p_mark uuid, p_jobs uuid[], p_tokens uuid[], p_results text[], p_run_ms integer[])
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    ended bigint;
BEGIN
    PERFORM attempt_check(p_mark);
    WITH held AS (
        SELECT t.job_id, t.tenant_id FROM turno.tickets t
        WHERE t.job_id = ANY (p_jobs) AND t.token = ANY (p_tokens) ORDER BY t.job_id FOR UPDATE
    ), completed AS (
        UPDATE background_jobs j
        SET status = 'completed', reason = NULL, result = c.result::jsonb, error = NULL, finished_at = clock_timestamp()
        FROM unnest(p_jobs, p_results, p_run_ms) AS c (id, result, run_ms), held h
        WHERE j.id = ANY (p_jobs) AND j.id = c.id AND c.id = h.job_id AND j.status = 'running'
        RETURNING j.id, j.user_id, j.type, j.run_at, j.finished_at, c.run_ms, h.tenant_id
    ), closed AS (
        UPDATE background_job_attempts a SET finished_at = c.finished_at, outcome = 'completed'
        FROM completed c WHERE a.job_id = ANY (p_jobs) AND a.job_id = c.id AND a.finished_at IS NULL
        RETURNING a.job_id, a.started_at
    ), told AS (
        INSERT INTO notifications (job_id, user_id, kind, data)
        SELECT c.id, c.user_id, 'completed',
               jsonb_build_object('type', c.type, 'reason', NULL, 'done', p.done, 'failed', p.failed, 'total', p.total)
        FROM completed c LEFT JOIN background_job_progress p ON p.job_id = ANY (p_jobs) AND p.job_id = c.id
    ), gone AS (
        DELETE FROM turno.tickets t USING held h WHERE t.job_id = ANY (p_jobs) AND t.job_id = h.job_id
    )
    INSERT INTO turno.outcomes (tenant_id, type, outcome, wait_ms, run_ms)
    SELECT c.tenant_id, c.type, 'completed',
           least(2147483647, greatest(0, 1000 * extract(epoch FROM a.started_at - c.run_at)))::integer, c.run_ms
    FROM completed c JOIN closed a ON a.job_id = c.id;
    GET DIAGNOSTICS ended = ROW_COUNT;
    IF ended < cardinality(p_jobs) THEN
        RAISE EXCEPTION 'the claim on a job of the group was lost, or it was not started; it must not be completed'
            USING ERRCODE = 'TU001';
    END IF;
END $$;
