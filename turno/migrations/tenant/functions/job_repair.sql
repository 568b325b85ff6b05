-- Make the tickets agree with the jobs; returns how many rows changed.
CREATE OR REPLACE FUNCTION job_repair(p_backend text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
-- It compares two whole lists: a nested loop would be quadratic.
SET enable_nestloop = off AS $$
DECLARE
    changed bigint;
    n bigint;
BEGIN
    -- Running without a ticket: its claim can never be proved again, so it waits once more.
    WITH lost AS (
        SELECT j.id FROM background_jobs j
        WHERE j.finished_at IS NULL AND j.status = 'running' AND NOT EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = j.id)
        FOR UPDATE SKIP LOCKED
    ), closed AS (
        UPDATE background_job_attempt_rows a SET finished_at = clock_timestamp(), outcome = 'released'
        FROM lost WHERE a.job_id = lost.id AND a.finished_at IS NULL
    )
    UPDATE background_jobs j SET status = 'pending', reason = 'its ticket was missing', run_at = clock_timestamp()
    FROM lost WHERE j.id = lost.id AND j.status = 'running';
    GET DIAGNOSTICS changed = ROW_COUNT;
    INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, attempt,
                               crashes, concurrency_key, key_position, awaited_by, retrying)
    SELECT j.id, turno.tenant_of(current_user), j.queue, j.type, j.version, j.priority, j.run_at,
           turno.due_state(j.run_at, j.concurrency_key), p_backend, j.attempt, j.crashes, j.concurrency_key, j.key_position,
           j.awaited_by, j.error IS NOT NULL
    FROM background_jobs j
    WHERE j.finished_at IS NULL AND j.status = 'pending' AND NOT EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = j.id)
    -- Locked, so that a concurrent cancellation waits and then finds the ticket to remove.
    FOR UPDATE SKIP LOCKED
    ON CONFLICT (job_id) DO NOTHING;
    GET DIAGNOSTICS n = ROW_COUNT;
    changed := greatest(changed, n);
    DELETE FROM turno.tickets t
    WHERE NOT EXISTS (SELECT FROM background_jobs j WHERE j.id = t.job_id AND j.finished_at IS NULL);
    GET DIAGNOSTICS n = ROW_COUNT;
    changed := changed + n;
    -- The jobs that it waits for have all ended, and no row of part_looks names it.
    UPDATE turno.tickets t SET state = 'scheduled', run_at = clock_timestamp()
    WHERE t.state = 'parts'
      AND NOT EXISTS (SELECT FROM turno.tickets p WHERE p.awaited_by = t.job_id);
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN changed + n;
END $$;
