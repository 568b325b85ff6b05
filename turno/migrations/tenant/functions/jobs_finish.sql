-- Complete all of these or none, in the transaction of their work: whoever still has the tickets writes it, once. The
-- tickets go first, in the order of the primary key, as everybody locks who wants several: who else wants one waits.
CREATE OR REPLACE FUNCTION jobs_finish(p_mark uuid, p_jobs uuid[], p_tokens uuid[], p_results text[], p_began timestamptz[],
                                       p_ended timestamptz[], p_worker text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    completed bigint;
BEGIN
    PERFORM assert_attempt(p_mark);
    WITH gone AS (
        DELETE FROM turno.tickets t WHERE t.job_id = ANY (p_jobs) AND t.token = ANY (p_tokens)
        RETURNING t.job_id, t.token, t.tenant_id, t.attempt, t.awaited_by
    ), ended AS (
        UPDATE background_jobs j
        SET status = 'completed', attempt = g.attempt, reason = NULL, result = c.result::jsonb, error = NULL,
            started_at = coalesce(j.started_at, c.began), finished_at = c.ended
        FROM (SELECT u.id, u.result, least(u.began, clock_timestamp()) AS began, least(u.ended, clock_timestamp()) AS ended
              FROM unnest(p_jobs, p_results, p_began, p_ended) AS u (id, result, began, ended)) AS c, gone g
        WHERE j.id = ANY (p_jobs) AND j.id = c.id AND c.id = g.job_id AND j.status IN ('pending', 'running')
        RETURNING j.id, j.user_id, j.type, j.run_at, c.began, c.ended, g.token, g.tenant_id, g.attempt, g.awaited_by
    ), ran AS (  -- what was shown as running has its row since then
        INSERT INTO background_job_attempts AS a
               (job_id, attempt, token, worker, backend_pid, started_at, finished_at, outcome)
        SELECT e.id, e.attempt, e.token, p_worker, pg_backend_pid(), e.began, e.ended, 'completed' FROM ended e
        ON CONFLICT (job_id, attempt) DO UPDATE SET finished_at = excluded.finished_at, outcome = excluded.outcome
    ), told AS (
        INSERT INTO notifications (job_id, user_id, kind, data)
        SELECT e.id, e.user_id, 'completed',
               jsonb_build_object('type', e.type, 'reason', NULL, 'done', p.done, 'failed', p.failed, 'total', p.total)
        FROM ended e LEFT JOIN background_job_progress p ON p.job_id = ANY (p_jobs) AND p.job_id = e.id
        WHERE e.awaited_by IS NULL  -- of a part its job tells
    ), counted AS (
        INSERT INTO turno.outcomes (tenant_id, job_id, type, outcome, wait_ms, run_ms)
        SELECT e.tenant_id, e.id, e.type, 'completed',
               -- The clock may have been set back, and int may overflow.
               least(2147483647, greatest(0, 1000 * extract(epoch FROM e.began - e.run_at)))::integer,
               least(2147483647, 1000 * extract(epoch FROM greatest(interval '0', e.ended - e.began)))::integer
        FROM ended e
    )
    SELECT count(*) INTO completed FROM ended;
    IF completed < cardinality(p_jobs) THEN
        RAISE EXCEPTION 'the claim on a job of the batch was lost; it must not be completed' USING ERRCODE = 'TU001';
    END IF;
END $$;
