-- Say in the job's history that its end was not told to somebody; the call-back stays, due at no time, for operators.
CREATE OR REPLACE FUNCTION callback_abandon(p_id bigint, p_reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    told uuid;
BEGIN
    UPDATE turno.callbacks SET due_at = 'infinity', error = shortened(p_reason, 1000) WHERE id = p_id
    RETURNING job_id INTO told;
    INSERT INTO background_job_events (job_id, old_status, new_status, attempt, reason)
    SELECT j.id, j.status, j.status, j.attempt, shortened(p_reason, 1000) FROM background_jobs j WHERE j.id = told;
END $$;
