-- Return the ids without a row: files in the folder of deleted uploads and jobs, and of rolled-back work.
CREATE OR REPLACE FUNCTION files_unknown(p_files uuid[]) RETURNS SETOF uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY SELECT u.id FROM unnest(p_files) AS u (id)
    WHERE NOT EXISTS (SELECT FROM job_files f WHERE f.id = u.id AND f.in_folder);
END $$;
