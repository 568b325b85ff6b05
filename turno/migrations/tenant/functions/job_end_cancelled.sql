-- The handler said that its job is pointless: it ends as cancelled.
CREATE OR REPLACE FUNCTION job_end_cancelled(p_job uuid, p_token uuid, p_reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    PERFORM attempt_end(p_job, 'cancelled', NULL);
    PERFORM job_end(p_job, 'cancelled', p_reason, NULL, NULL);
END $$;
