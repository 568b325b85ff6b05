CREATE OR REPLACE FUNCTION effect_close(p_key text, p_intent uuid, p_state text, p_result jsonb, p_by text) RETURNS uuid[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    waiters uuid[];
BEGIN
    SELECT waiting INTO waiters FROM external_effects WHERE key = p_key AND state = 'intended' AND token = p_intent FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE external_effects
    SET state = p_state, result = p_result, waiting = '{}', settled_at = clock_timestamp(), settled_by = p_by
    WHERE key = p_key;
    IF waiters = '{}' THEN
        RETURN waiters;
    END IF;
    WITH woken AS (
        UPDATE background_jobs
        SET run_at = clock_timestamp(), error = NULL, reason = format('%s was settled as %s by %s', p_key, p_state, p_by)
        WHERE id = ANY (waiters) AND status = 'pending' AND run_at = 'infinity'
        RETURNING id, run_at, attempt, reason
    ), told AS (
        INSERT INTO background_job_event_rows (job_id, old_status, new_status, attempt, reason)
        SELECT id, 'pending', 'pending', attempt, reason FROM woken
    ), answered AS (
        UPDATE notifications_of_reviews n SET read_at = clock_timestamp()
        FROM woken WHERE n.job_id = woken.id AND n.read_at IS NULL
    ), ready AS (
        UPDATE turno.tickets t
        SET state = turno.due_state(woken.run_at, concurrency_key), run_at = woken.run_at FROM woken
        WHERE t.job_id = ANY (waiters) AND t.job_id = woken.id
    )
    SELECT coalesce(array_agg(id), '{}') INTO waiters FROM woken;
    RETURN waiters;
END $$;
