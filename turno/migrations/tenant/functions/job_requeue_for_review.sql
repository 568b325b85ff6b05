-- Back to waiting, until a person settles the effect. The caller holds the ticket. False if it was settled in
-- this very moment.
CREATE OR REPLACE FUNCTION job_requeue_for_review(p_job uuid, p_key text, p_reason text, p_error jsonb, p_crashes integer)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    UPDATE external_effects SET waiting = array_append(waiting, p_job) WHERE key = p_key AND state = 'intended';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM job_requeue(p_job, 'infinity', p_reason, p_error, 0, p_crashes);
    INSERT INTO notifications_of_reviews (job_id, user_id, data)
    SELECT p_job, user_id, jsonb_build_object('type', type, 'reason', shortened(p_reason, 1000), 'key', p_key)
    FROM background_jobs WHERE id = p_job;
    RETURN true;
END $$;
