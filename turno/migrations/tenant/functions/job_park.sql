-- Let the job wait until a person settles p_doubt, and notify its user. The caller holds the ticket. A capability clears
-- in_doubt if it was settled a moment ago: then the job is due at once.
CREATE OR REPLACE FUNCTION job_park(p_job uuid, p_doubt text, p_reason text, p_error jsonb, p_crashes integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    doubt text;
BEGIN
    UPDATE background_jobs SET in_doubt = p_doubt WHERE id = p_job RETURNING in_doubt INTO doubt;
    IF doubt IS NULL THEN
        PERFORM job_requeue(p_job, clock_timestamp(), p_reason, NULL, 0, p_crashes);
        RETURN;
    END IF;
    PERFORM job_requeue(p_job, 'infinity', p_reason, p_error, 0, p_crashes);
    INSERT INTO notifications_of_reviews (job_id, user_id, data)
    SELECT p_job, user_id, jsonb_build_object('type', type, 'reason', shortened(p_reason, 1000), 'key', p_doubt)
    FROM background_jobs WHERE id = p_job;
END $$;

-- Lock the tickets of the jobs that are parked for p_doubt, before a settlement locks further rows.
CREATE OR REPLACE FUNCTION parked_hold(p_doubt text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM turno.tickets WHERE job_id = ANY (ARRAY(SELECT id FROM background_jobs WHERE in_doubt = p_doubt))
    ORDER BY job_id FOR UPDATE;
END $$;

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
