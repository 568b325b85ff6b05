-- A person settles an effect in doubt: with the answer of the receiver, or with NULL as absent.
-- unknown: this user has no such job, or the job has no such effect.  busy: an attempt may be making the call now.
-- ended: the effect was settled before.  settled: the jobs in `woken` run on.
CREATE OR REPLACE FUNCTION effect_decide(p_job uuid, p_user text, p_key text, p_result jsonb, p_by text)
RETURNS TABLE (verdict text, woken uuid[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    job background_jobs;
    effect external_effects;
    settled_state text := CASE WHEN p_result IS NULL THEN 'absent' ELSE 'done' END;
BEGIN
    PERFORM parked_hold(p_key);
    SELECT * INTO job FROM background_jobs WHERE id = p_job AND (p_user IS NULL OR user_id = p_user);
    SELECT * INTO effect FROM external_effects WHERE key = p_key AND (job_id = job.id OR job.in_doubt = p_key) FOR UPDATE;
    IF NOT FOUND THEN
        verdict := 'unknown';
    ELSIF effect.state <> 'intended' THEN
        verdict := 'ended';
    ELSIF EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = effect.job_id AND t.token = effect.token) THEN
        verdict := 'busy';
    ELSE
        verdict := 'settled';
        woken := effect_close(p_key, effect.token, settled_state, p_result, p_by);
        IF p_job <> ALL (woken) THEN  -- its history has the decision, too
            INSERT INTO background_job_event_rows (job_id, old_status, new_status, attempt, reason)
            VALUES (p_job, job.status, job.status, job.attempt, format('%s was settled as %s by %s', p_key, settled_state, p_by));
        END IF;
        IF p_user IS NULL THEN  -- the decision of an operator, not of the job's user
            INSERT INTO turno.operator_acts (actor, action, jobs, detail)
            VALUES (left(p_by, 255), 'settle', cardinality(woken),
                    jsonb_build_object('job', p_job, 'effect', p_key, 'as', settled_state));
        END IF;
    END IF;
    RETURN NEXT;
END $$;
