-- Keep an upload that this job reads as long as the first job that read it; returns its row, none for a file that this job
-- may not read.
CREATE OR REPLACE FUNCTION file_take(p_job uuid, p_token uuid, p_file uuid) RETURNS SETOF job_files
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM claimed_job(p_job, p_token);
    RETURN QUERY UPDATE job_files SET job_id = coalesce(job_id, p_job), expires_at = NULL
    WHERE id = p_file AND uploaded AND complete_at IS NOT NULL
      AND user_id = (SELECT j.user_id FROM background_jobs j WHERE j.id = p_job)
    RETURNING *;
END $$;
