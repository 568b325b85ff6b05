-- Have the end of a job told to this address: in the transaction that made the job.
CREATE OR REPLACE FUNCTION callback_put(p_job uuid, p_url text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO turno.callbacks (job_id, tenant_id, url)
    SELECT j.id, turno.tenant_of(current_user), p_url FROM background_jobs j WHERE j.id = p_job
    ON CONFLICT DO NOTHING;
END $$;
