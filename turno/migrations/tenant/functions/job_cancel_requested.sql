-- Whether a cancellation of this job was requested.
CREATE OR REPLACE FUNCTION job_cancel_requested(p_job uuid) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    SELECT cancel_requested_at IS NOT NULL FROM background_jobs WHERE id = p_job;
END;
