-- What a call-back tells of an ended job: nothing that a tenant stored.
CREATE OR REPLACE FUNCTION callback_job(p_job uuid) RETURNS TABLE (type text, status text, finished_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY SELECT j.type::text, j.status::text, j.finished_at FROM background_jobs j WHERE j.id = p_job;
END $$;
