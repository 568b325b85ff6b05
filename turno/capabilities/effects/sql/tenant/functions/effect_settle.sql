-- Record the outcome that an attempt knows: done with this result, or absent. False if the effect was settled or issued
-- again since p_intent was read. Jobs that are parked for the effect run on.
CREATE OR REPLACE FUNCTION effect_settle(
    p_job uuid, p_token uuid, p_key text, p_intent uuid, p_state text, p_result jsonb, p_by text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    intended uuid;
BEGIN
    PERFORM claim_hold(p_job, p_token);
    PERFORM parked_hold(p_key);
    SELECT e.token INTO intended FROM external_effects e
    WHERE e.key = p_key AND e.state = 'intended' AND (e.token = p_token OR intent_of(e.token) = p_intent)
      AND effect_open_to(e, p_job, p_token)
    FOR UPDATE;
    RETURN FOUND AND effect_close(p_key, intended, p_state, p_result, p_by) IS NOT NULL;
END $$;
