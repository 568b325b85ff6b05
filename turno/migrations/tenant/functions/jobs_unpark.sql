-- The doubt is settled: the jobs that are parked for it are due. Returns them; the caller has called parked_hold.
CREATE OR REPLACE FUNCTION jobs_unpark(p_doubt text, p_reason text) RETURNS uuid[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    unparked uuid[];
BEGIN
    WITH due AS (
        UPDATE background_jobs SET run_at = clock_timestamp(), in_doubt = NULL, error = NULL, reason = p_reason
        WHERE in_doubt = p_doubt
        RETURNING id, run_at, attempt
    ), history AS (
        INSERT INTO background_job_event_rows (job_id, old_status, new_status, attempt, reason)
        SELECT id, 'pending', 'pending', attempt, p_reason FROM due
    ), answered AS (
        UPDATE notifications_of_reviews n SET read_at = clock_timestamp()
        FROM due WHERE n.job_id = due.id AND n.read_at IS NULL
    ), tickets AS (
        UPDATE turno.tickets t SET state = turno.due_state(due.run_at, concurrency_key), run_at = due.run_at
        FROM due WHERE t.job_id = due.id
    )
    SELECT coalesce(array_agg(id), '{}') INTO unparked FROM due;
    RETURN unparked;
END $$;
