-- Issue an effect in doubt again, unless it was settled or issued again since p_intent was read.
CREATE OR REPLACE FUNCTION effect_reissue(p_job uuid, p_token uuid, p_key text, p_intent uuid) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    UPDATE external_effects
    SET job_id = p_job, attempt = (SELECT attempt FROM background_jobs WHERE id = p_job), token = p_token,
        caller_gone = false, calls = calls + 1, intended_at = clock_timestamp()
    WHERE key = p_key AND state = 'intended' AND intent_of(token) = p_intent
      AND effect_open_to(external_effects, p_job, p_token);
    RETURN FOUND;
END $$;
