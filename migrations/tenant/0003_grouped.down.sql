DROP FUNCTION jobs_complete, jobs_start, jobs_held;

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
    INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, attempt)
    SELECT j.id, turno.tenant_of(current_user), j.queue, j.type, j.version, j.priority, j.run_at,
           CASE WHEN j.run_at > clock_timestamp() THEN 'scheduled' ELSE 'ready' END, p_backend, j.attempt
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
        run_at = p_run_at, worker_id = NULL, token = NULL, published_at = NULL, cancel_at = NULL
    WHERE job_id = p_job;
END $$;
