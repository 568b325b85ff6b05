CREATE OR REPLACE FUNCTION application_cancel(p_job uuid) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
    SELECT job_cancel(p_job, NULL, 'cancelled by the application')
$$;
