-- Several small jobs of one type in one transaction: started together, completed together, each with its own
-- claim, attempt and end. What fails among them, or is put back, ends by the functions of a single job.

-- Back to waiting; the caller holds the ticket. A zero delay is ready at once.
CREATE OR REPLACE FUNCTION job_requeue(p_job uuid, p_run_at timestamptz, p_reason text, p_error jsonb, p_errors integer, p_crashes integer)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE background_jobs
    SET status = 'pending', run_at = p_run_at, reason = p_reason, error = p_error,
        errors = errors + p_errors, crashes = crashes + p_crashes
    WHERE id = p_job AND status IN ('pending', 'running');
    UPDATE turno.tickets
    SET state = CASE WHEN p_run_at > clock_timestamp() THEN 'scheduled' ELSE 'ready' END,
        run_at = p_run_at, worker_id = NULL, token = NULL, published_at = NULL, cancel_at = NULL,
        crashes = crashes + p_crashes
    WHERE job_id = p_job;
END $$;

-- Make the tickets agree with the jobs again; returns how many rows had to change.
CREATE OR REPLACE FUNCTION job_repair(p_backend text, p_dry_run boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    changed bigint;
    n bigint;
BEGIN
    IF p_dry_run THEN
        SELECT count(*) INTO n FROM background_jobs j
        WHERE j.status IN ('pending', 'running') AND NOT EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = j.id);
        SELECT n + count(*) INTO changed FROM turno.tickets t
        WHERE NOT EXISTS (SELECT FROM background_jobs j WHERE j.id = t.job_id AND j.status IN ('pending', 'running'));
        RETURN changed;
    END IF;
    -- Running without a ticket: its claim can never be proved again, so it waits once more.
    WITH lost AS (
        SELECT j.id FROM background_jobs j
        WHERE j.status = 'running' AND NOT EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = j.id)
        FOR UPDATE SKIP LOCKED
    ), closed AS (
        UPDATE background_job_attempts a SET finished_at = clock_timestamp(), outcome = 'released'
        FROM lost WHERE a.job_id = lost.id AND a.finished_at IS NULL
    )
    UPDATE background_jobs j SET status = 'pending', reason = 'its ticket was missing', run_at = clock_timestamp()
    FROM lost WHERE j.id = lost.id AND j.status = 'running';
    GET DIAGNOSTICS changed = ROW_COUNT;
    INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, attempt,
                               crashes)
    SELECT j.id, turno.tenant_of(current_user), j.queue, j.type, j.version, j.priority, j.run_at,
           CASE WHEN j.run_at > clock_timestamp() THEN 'scheduled' ELSE 'ready' END, p_backend, j.attempt, j.crashes
    FROM background_jobs j
    WHERE j.status = 'pending' AND NOT EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = j.id)
    -- Held, so that whoever cancels it meanwhile waits and then finds the ticket to remove.
    FOR UPDATE SKIP LOCKED
    ON CONFLICT (job_id) DO NOTHING;
    GET DIAGNOSTICS n = ROW_COUNT;
    changed := greatest(changed, n);
    DELETE FROM turno.tickets t
    WHERE NOT EXISTS (SELECT FROM background_jobs j WHERE j.id = t.job_id AND j.status IN ('pending', 'running'));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN changed + n;
END $$;

-- Which of these claims are still held; they stay so until the transaction ends. Waits for a commit under way
-- that may have ended them: so a worker that lost the answer to its COMMIT asks here what became of it.
CREATE FUNCTION jobs_held(p_jobs uuid[], p_tokens uuid[]) RETURNS uuid[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
-- Plans are made while the tables are small and kept when they are not.
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN ARRAY(
        SELECT t.job_id FROM unnest(p_jobs, p_tokens) AS c (job_id, token)
        JOIN turno.tickets t ON t.job_id = c.job_id AND t.token = c.token AND t.state = 'running'
        ORDER BY t.job_id FOR UPDATE OF t);
END $$;

-- Open the attempts of those that are still held, in a transaction of their own, and hand out what their
-- handler needs.
CREATE FUNCTION jobs_start(p_jobs uuid[], p_tokens uuid[], p_worker text)
RETURNS TABLE (job_id uuid, payload jsonb, user_id text, correlation_id text, trace_context text, attempt integer,
               errors integer, max_attempts integer, checkpoint jsonb, expired boolean, cancelled boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    mine uuid[] := jobs_held(p_jobs, p_tokens);
BEGIN
    RETURN QUERY
        WITH started AS (
            UPDATE background_jobs j
            SET status = 'running', attempt = t.attempt, reason = NULL,
                started_at = coalesce(j.started_at, clock_timestamp())
            FROM turno.tickets t
            WHERE t.job_id = ANY (mine) AND j.id = t.job_id AND j.status = 'pending'
            RETURNING j.*, t.token
        ), opened AS (
            INSERT INTO background_job_attempts (job_id, attempt, token, worker, backend_pid, backend_start)
            SELECT s.id, s.attempt, s.token, p_worker, a.pid, a.backend_start
            FROM pg_stat_get_activity(pg_backend_pid()) AS a, started s
        )
        SELECT s.id, s.payload, s.user_id, s.correlation_id, s.trace_context, s.attempt, s.errors, s.max_attempts,
               NULL::jsonb, coalesce(s.expires_at <= clock_timestamp(), false), s.cancel_requested_at IS NOT NULL
        FROM started s;
END $$;

-- Complete all of these or none. p_mark is what the executor's BEGIN has set; p_run_ms is how long each one's
-- handler took, for the metrics: their attempts are as long as the group's transaction.
CREATE FUNCTION jobs_complete(p_mark uuid, p_jobs uuid[], p_tokens uuid[], p_results text[], p_run_ms integer[])
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    ended bigint;
BEGIN
    PERFORM attempt_check(p_mark);
    IF cardinality(jobs_held(p_jobs, p_tokens)) < cardinality(p_jobs) THEN
        RAISE EXCEPTION 'the claim on a job of the group was lost; it must not be completed' USING ERRCODE = 'TU001';
    END IF;
    WITH closed AS (
        UPDATE background_job_attempts SET finished_at = clock_timestamp(), outcome = 'completed'
        WHERE job_id = ANY (p_jobs) AND finished_at IS NULL
        RETURNING job_id, started_at
    ), completed AS (
        UPDATE background_jobs j
        SET status = 'completed', reason = NULL, result = c.result::jsonb, error = NULL,
            finished_at = clock_timestamp()
        FROM unnest(p_jobs, p_results, p_run_ms) AS c (id, result, run_ms)
        WHERE j.id = c.id AND j.status = 'running'
        RETURNING j.id, j.user_id, j.type, j.run_at, c.run_ms
    ), told AS (
        INSERT INTO notifications (job_id, user_id, kind, data)
        SELECT c.id, c.user_id, 'completed',
               jsonb_build_object('type', c.type, 'reason', NULL, 'done', p.done, 'failed', p.failed, 'total', p.total)
        FROM completed c LEFT JOIN background_job_progress p ON p.job_id = c.id
    ), counted AS (
        INSERT INTO turno.outcomes (tenant_id, type, outcome, wait_ms, run_ms)
        SELECT turno.tenant_of(current_user), c.type, 'completed',
               -- The clock may have been set back, and int may overflow.
               least(2147483647, greatest(0, 1000 * extract(epoch FROM a.started_at - c.run_at)))::integer, c.run_ms
        FROM completed c JOIN closed a ON a.job_id = c.id
    )
    DELETE FROM turno.tickets t USING completed c JOIN closed a ON a.job_id = c.id WHERE t.job_id = c.id;
    GET DIAGNOSTICS ended = ROW_COUNT;
    IF ended < cardinality(p_jobs) THEN
        RAISE EXCEPTION 'a job of the group is not running; it must not be completed' USING ERRCODE = 'TU001';
    END IF;
END $$;
