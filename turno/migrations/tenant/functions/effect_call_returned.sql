-- The attempt's call came back without an answer, so this caller is at it no more.
CREATE OR REPLACE FUNCTION effect_call_returned(p_job uuid, p_token uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    PERFORM effect_caller_gone(p_token);
END $$;
