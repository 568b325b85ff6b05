-- The attempt ends without a count, and its job is parked until a person settles p_doubt.
CREATE OR REPLACE FUNCTION job_await_review(p_job uuid, p_token uuid, p_doubt text, p_reason text, p_error jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    IF attempt_close(p_job, p_token, 'released', p_error) THEN
        RETURN 'cancelled';
    END IF;
    PERFORM outcome_put(p_job, 'released');
    PERFORM job_park(p_job, p_doubt, p_reason, p_error, 0);
    RETURN 'pending';
END $$;
