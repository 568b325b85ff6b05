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
