-- Delete the files of deleted jobs, with their pieces.
CREATE OR REPLACE FUNCTION job_files_forget() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM job_files f USING gone g WHERE f.job_id = g.id;
    RETURN NULL;
END $$;
