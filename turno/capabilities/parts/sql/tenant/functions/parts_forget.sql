-- Delete the lists of parts of deleted jobs.
CREATE OR REPLACE FUNCTION parts_forget() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM background_job_parts b USING gone g WHERE b.job_id = g.id;
    RETURN NULL;
END $$;
