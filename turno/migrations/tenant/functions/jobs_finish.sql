-- Complete all of these jobs or none, in the transaction of their work, if their claims are still valid. The tickets are
-- deleted first, in the order of the primary key, which is the order of locks everywhere. Failed items make a dead letter.
-- Called before each commit of the executor, also without jobs: it raises in any transaction that the executor did not
-- begin. SQL of a handler cannot choose the start of a transaction, so this detects a COMMIT or ROLLBACK by the handler.
CREATE OR REPLACE FUNCTION jobs_finish(p_started timestamptz, p_jobs uuid[], p_tokens uuid[], p_results text[], p_began timestamptz[],
                                       p_ended timestamptz[], p_worker text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    completed bigint;
    elsewhere uuid[];  -- jobs that are shown as the work of another session
BEGIN
    IF p_started IS DISTINCT FROM transaction_timestamp() THEN
        RAISE EXCEPTION 'the handler ended the job''s transaction itself; leave commit and rollback to the executor'
            USING ERRCODE = 'TU002';
    END IF;
    -- As in claim_hold: the commit is flushed to disk.
    PERFORM set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') IN ('off', 'local');
    IF p_jobs = '{}' THEN
        RETURN;
    END IF;
    WITH gone AS (
        DELETE FROM turno.tickets t WHERE t.job_id = ANY (p_jobs) AND t.token = ANY (p_tokens)
        RETURNING t.job_id, t.token, t.tenant_id, t.attempt
    ), ended AS (
        UPDATE background_jobs j
        SET status = 'completed', attempt = g.attempt, reason = NULL, result = c.result::jsonb, error = NULL,
            started_at = coalesce(j.started_at, c.began), finished_at = c.ended,
            worker = CASE WHEN j.started_at IS NULL THEN p_worker END,
            revision = j.revision + (j.started_at IS NULL)::integer  -- the trigger counts only other changes
        FROM (SELECT u.id, u.result, least(u.began, clock_timestamp()) AS began,
                     -- Readers find recent ends by this time: a slow clock of the worker must not hide one.
                     least(greatest(u.ended, now()), clock_timestamp()) AS ended
              FROM unnest(p_jobs, p_results, p_began, p_ended) AS u (id, result, began, ended)) AS c, gone g
        WHERE j.id = ANY (p_jobs) AND j.id = c.id AND c.id = g.job_id AND j.status IN ('pending', 'running')
        RETURNING j.id, j.type, j.run_at, j.worker IS NOT NULL AS brief, c.began, c.ended, g.token, g.tenant_id, g.attempt,
                  j.awaited_by
    ), counts AS MATERIALIZED (  -- a handler that reports progress itself has reported the last step, or not: it is done
        SELECT e.*, i.counted, p.done AS shown, p.failed, p.total,
               CASE WHEN i.counted THEN p.done ELSE greatest(p.done, p.total) END AS done,
               i.counted AND NOT EXISTS (SELECT FROM background_job_progress_rows w
                                         WHERE w.job_id = e.awaited_by AND w.total > 0) AS own_items
        FROM ended e LEFT JOIN background_job_progress p ON p.job_id = e.id
        LEFT JOIN LATERAL (SELECT has_items(e.id) AS counted WHERE p.job_id IS NOT NULL) AS i ON true
    ), whole AS (
        UPDATE background_job_progress_rows p SET done = c.done, revision = p.revision + 1, updated_at = clock_timestamp()
        FROM counts c WHERE c.shown < c.done AND p.job_id = c.id
    ), ran AS (  -- an attempt that was shown as running has its row since then
        INSERT INTO background_job_attempt_rows AS a
               (job_id, attempt, token, worker, backend_pid, started_at, finished_at, outcome)
        SELECT e.id, e.attempt, e.token, p_worker, pg_backend_pid(), e.began, e.ended, 'completed'
        FROM ended e WHERE NOT e.brief
        ON CONFLICT (job_id, attempt) DO UPDATE SET finished_at = excluded.finished_at, outcome = excluded.outcome
        RETURNING a.job_id, a.backend_pid
    ), fell_short AS (
        INSERT INTO turno.dead_letters (job_id, tenant_id, type, outcome, error, items_done, items_failed)
        SELECT e.id, e.tenant_id, e.type, outcome_of('completed', NULL, e.done, e.failed), item_error(e.id), e.done, e.failed
        FROM counts e WHERE e.own_items AND e.failed > 0
    ), counted AS (
        INSERT INTO turno.outcome_batches (tenant_id, type, outcome, jobs, items_done, items_failed, wait_ms, run_ms)
        SELECT e.tenant_id, e.type, outcome_of('completed', NULL, e.done, e.failed), array_agg(e.id),
               array_agg(CASE WHEN e.own_items THEN e.done END), array_agg(CASE WHEN e.own_items THEN e.failed END),
               -- The clock may have been set back, and int may overflow.
               array_agg(least(2147483647, greatest(0, 1000 * extract(epoch FROM e.began - e.run_at)))::integer),
               array_agg(least(2147483647, 1000 * extract(epoch FROM greatest(interval '0', e.ended - e.began)))::integer)
        FROM counts e GROUP BY 1, 2, 3
    )
    SELECT (SELECT count(*) FROM ended), ARRAY(SELECT r.job_id FROM ran r WHERE r.backend_pid <> pg_backend_pid())
    INTO completed, elsewhere;
    IF completed < cardinality(p_jobs) THEN
        RAISE EXCEPTION 'the claim on a job of the batch was lost; it must not be completed' USING ERRCODE = 'TU001';
    END IF;
    IF elsewhere <> '{}' THEN
        PERFORM session_gone(a.backend_pid, a.backend_start) FROM background_job_attempt_rows a
        WHERE a.job_id = ANY (elsewhere) AND a.token = ANY (p_tokens);
    END IF;
END $$;
