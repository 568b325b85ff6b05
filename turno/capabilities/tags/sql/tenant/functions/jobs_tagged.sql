-- The tenant's jobs with at least one of these tags.
CREATE OR REPLACE FUNCTION jobs_tagged(p_tags text[]) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY SELECT t.job_id FROM turno.job_tags t WHERE t.tag = ANY (p_tags);
END $$;
