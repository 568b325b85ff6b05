-- The work so far may be committed: it is this attempt's, in its own transaction. Returns whether to stop.
CREATE OR REPLACE FUNCTION job_hold(p_job uuid, p_token uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    RETURN job_cancel_requested(p_job);
END $$;
