-- Create a file of a job within the job's transaction: it is committed or rolled back with the job's work.
CREATE OR REPLACE FUNCTION file_create(p_job uuid, p_token uuid, p_name text, p_media_type text, p_piece_bytes integer,
                            p_in_folder boolean DEFAULT false)
RETURNS uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    made uuid;
BEGIN
    PERFORM claimed_job(p_job, p_token);
    INSERT INTO job_files (name, media_type, size, piece_bytes, user_id, uploaded, in_folder, job_id)
    SELECT p_name, p_media_type, 0, p_piece_bytes, j.user_id, false, p_in_folder, j.id FROM background_jobs j WHERE j.id = p_job
    RETURNING id INTO made;
    RETURN made;
END $$;
