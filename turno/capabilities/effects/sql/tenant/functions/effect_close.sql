-- Settle an intent and let the jobs run on that are parked for its effect; returns them, NULL if the intent is another now.
CREATE OR REPLACE FUNCTION effect_close(p_key text, p_intent uuid, p_state text, p_result jsonb, p_by text) RETURNS uuid[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE external_effects
    SET state = p_state, result = p_result, settled_at = clock_timestamp(), settled_by = p_by
    WHERE key = p_key AND state = 'intended' AND token = p_intent;
    RETURN CASE WHEN FOUND THEN jobs_unpark(p_key, format('%s was settled as %s by %s', p_key, p_state, p_by)) END;
END $$;
