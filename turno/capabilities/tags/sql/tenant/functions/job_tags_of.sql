-- The tags of a job in alphabetical order; null if it has none.
CREATE OR REPLACE FUNCTION job_tags_of(p_job uuid) RETURNS text[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    RETURN (SELECT array_agg(t.tag ORDER BY t.tag COLLATE "C") FROM turno.job_tags t WHERE t.job_id = p_job);
END $$;
