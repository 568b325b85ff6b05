-- Say in the job's history that its end was not told to the address that it was to be told to.
CREATE OR REPLACE FUNCTION callback_give_up(p_job uuid, p_reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO background_job_events (job_id, old_status, new_status, attempt, reason)
    SELECT j.id, j.status, j.status, j.attempt, shortened(p_reason, 1000) FROM background_jobs j WHERE j.id = p_job;
    DELETE FROM turno.callbacks WHERE job_id = p_job;
END $$;
