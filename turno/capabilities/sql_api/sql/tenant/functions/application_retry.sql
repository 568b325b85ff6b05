CREATE OR REPLACE FUNCTION application_retry(p_job uuid, p_backend text, OUT new_job_id uuid, OUT verdict text)
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
    SELECT r.job_id, r.verdict FROM job_retry(p_job, NULL, p_backend, NULL, NULL, NULL) AS r
$$;
