-- The attempt ends, and its job waits for a person to settle the effect; nothing is counted.
CREATE OR REPLACE FUNCTION job_await_review(p_job uuid, p_token uuid, p_key text, p_reason text, p_error jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    IF attempt_close(p_job, p_token, 'released', p_error) THEN
        RETURN 'cancelled';
    END IF;
    PERFORM outcome_put(p_job, 'released');
    IF NOT job_requeue_for_review(p_job, p_key, p_reason, p_error, 0) THEN
        PERFORM job_requeue(p_job, clock_timestamp(), p_reason, NULL, 0, 0);
    END IF;
    RETURN 'pending';
END $$;
