-- The attempt's call returned without an answer: this process makes the call no more.
CREATE OR REPLACE FUNCTION effect_call_returned(p_job uuid, p_token uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    UPDATE external_effects SET caller_gone = true WHERE token = p_token AND state = 'intended';
END $$;
