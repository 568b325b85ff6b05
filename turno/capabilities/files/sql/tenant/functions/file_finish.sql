-- Complete a file that a job wrote into the folder, with its size.
CREATE OR REPLACE FUNCTION file_finish(p_job uuid, p_token uuid, p_file uuid, p_size bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM claimed_job(p_job, p_token);
    UPDATE job_files SET size = p_size, complete_at = clock_timestamp()
    WHERE id = p_file AND job_id = p_job AND NOT uploaded AND in_folder AND complete_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no such file of this job is being written' USING ERRCODE = 'TU002';
    END IF;
END $$;
