-- The handler found its job pointless: it ends as cancelled.
CREATE OR REPLACE FUNCTION job_end_cancelled(p_job uuid, p_token uuid, p_reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    IF NOT attempt_close(p_job, p_token, 'cancelled', NULL) THEN
        PERFORM job_end(p_job, 'cancelled', p_reason, NULL, NULL);
    END IF;
END $$;
