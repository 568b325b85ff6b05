-- A person says what became of an effect that is in doubt: what the other side answered, or NULL if it is absent.
-- unknown: no such job of this user's, or it has no such effect.  busy: an attempt may be at it now.
-- ended: it was settled before.  settled: the jobs named run on.
CREATE OR REPLACE FUNCTION effect_decide(p_job uuid, p_user text, p_key text, p_result jsonb, p_by text)
RETURNS TABLE (verdict text, woken uuid[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    job background_jobs;
    effect external_effects;
    found_state text := CASE WHEN p_result IS NULL THEN 'absent' ELSE 'done' END;
BEGIN
    PERFORM waiting_hold(p_key);
    SELECT * INTO effect FROM external_effects
    WHERE key = p_key AND (job_id = p_job OR p_job = ANY (waiting)) FOR UPDATE;
    IF NOT FOUND OR NOT EXISTS (SELECT FROM background_jobs WHERE id = p_job AND (p_user IS NULL OR user_id = p_user)) THEN
        verdict := 'unknown';
    ELSIF effect.state <> 'intended' THEN
        verdict := 'ended';
    ELSIF EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = effect.job_id AND t.token = effect.token) THEN
        verdict := 'busy';
    ELSE
        verdict := 'settled';
        woken := effect_close(p_key, effect.token, found_state, p_result, p_by);
        SELECT * INTO job FROM background_jobs WHERE id = p_job;
        -- Who waits for nothing more has its history too.
        IF p_job <> ALL (woken) THEN
            INSERT INTO background_job_event_rows (job_id, old_status, new_status, attempt, reason)
            VALUES (p_job, job.status, job.status, job.attempt, format('%s was settled as %s by %s', p_key, found_state, p_by));
        END IF;
        IF p_user IS NULL THEN  -- an operator's word, not the user's own
            INSERT INTO turno.operator_acts (actor, action, jobs, detail)
            VALUES (left(p_by, 255), 'settle', cardinality(woken),
                    jsonb_build_object('job', p_job, 'effect', p_key, 'as', found_state));
        END IF;
    END IF;
    RETURN NEXT;
END $$;
