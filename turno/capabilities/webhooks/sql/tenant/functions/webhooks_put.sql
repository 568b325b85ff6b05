-- Deliver the end of a job to these URLs, by mail in this language; called in the transaction that inserts the job.
CREATE OR REPLACE FUNCTION webhooks_put(p_job uuid, p_urls text[], p_language text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    INSERT INTO turno.webhooks (job_id, tenant_id, url, language)
    SELECT j.id, turno.tenant_of(current_user), u.url, p_language
    FROM background_jobs j CROSS JOIN unnest(p_urls) AS u (url) WHERE j.id = p_job
    ON CONFLICT DO NOTHING;
END $$;
