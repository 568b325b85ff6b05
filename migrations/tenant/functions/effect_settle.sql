-- What is known now: done with this result, or absent. Returns false if the effect was settled or issued again
-- since p_intent was read. Who was waiting for a person goes on.
CREATE OR REPLACE FUNCTION effect_settle(p_job uuid, p_token uuid, p_key text, p_intent uuid, p_state text, p_result jsonb, p_by text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    PERFORM waiting_hold(p_key);
    RETURN effect_close(p_key, p_intent, p_state, p_result, p_by) IS NOT NULL;
END $$;
