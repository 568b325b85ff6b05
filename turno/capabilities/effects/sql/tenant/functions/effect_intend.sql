-- Record that an attempt is about to make an outside call, if it may.
-- issue: the effect is new, or did not happen; this attempt alone may make the call.  done: it happened, with this result.
-- doubt: it may have happened.  elsewhere: another attempt may be making the call now.  foreign: the key belongs to
-- another job type.
CREATE OR REPLACE FUNCTION effect_intend(p_job uuid, p_token uuid, p_key text, p_outside_key uuid)
RETURNS TABLE (verdict text, result jsonb, outside_key uuid, intent uuid, caller_gone boolean, calls integer,
               intended_at timestamptz, age interval)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    job background_jobs;
    run_number integer;
    effect external_effects;
    unsure boolean := EXISTS (SELECT FROM external_doubt);
BEGIN
    PERFORM claim_hold(p_job, p_token);
    SELECT * INTO job FROM background_jobs WHERE id = p_job;
    -- The job itself may not be shown as running yet.
    SELECT attempt INTO run_number FROM turno.tickets WHERE job_id = p_job;
    INSERT INTO external_effects AS e (key, type, outside_key, state, job_id, attempt, token, calls, caller_gone)
    VALUES (p_key, job.type, p_outside_key, 'intended', p_job, run_number, p_token, (NOT unsure)::integer, unsure)
    ON CONFLICT (key) DO NOTHING
    RETURNING * INTO effect;
    IF FOUND THEN
        verdict := CASE WHEN unsure THEN 'doubt' ELSE 'issue' END;
    ELSE
        SELECT * INTO effect FROM external_effects e WHERE e.key = p_key FOR UPDATE;
        IF effect.type <> job.type THEN
            verdict := 'foreign';
        ELSIF effect.state = 'done' THEN
            verdict := 'done';
        ELSIF effect.state = 'absent' THEN
            verdict := CASE WHEN unsure THEN 'doubt' ELSE 'issue' END;
            UPDATE external_effects e
            SET state = 'intended', job_id = p_job, attempt = run_number, token = p_token, caller_gone = unsure,
                calls = e.calls + (NOT unsure)::integer, intended_at = clock_timestamp(), settled_at = NULL, settled_by = NULL
            WHERE e.key = p_key
            RETURNING * INTO effect;
        ELSIF effect.token = p_token THEN
            -- Its own call, which has returned: a process makes one call at a time.
            effect.caller_gone := true;
            verdict := 'doubt';
        ELSIF NOT effect.caller_gone
              AND EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = effect.job_id AND t.token = effect.token) THEN
            verdict := 'elsewhere';
        ELSE
            verdict := 'doubt';
        END IF;
    END IF;
    IF verdict IN ('issue', 'doubt') THEN
        -- A job with an intent must come to its end, however late.
        UPDATE background_jobs SET expires_at = NULL WHERE id = p_job AND expires_at IS NOT NULL;
    END IF;
    result := effect.result;
    outside_key := effect.outside_key;
    intent := intent_of(effect.token);
    caller_gone := effect.caller_gone;
    calls := effect.calls;
    intended_at := effect.intended_at;
    age := clock_timestamp() - effect.intended_at;
    RETURN NEXT;
END $$;
