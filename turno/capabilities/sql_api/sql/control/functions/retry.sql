-- Retry an ended job with a new job that skips the items done: `accepted`, `replayed` with the job of an earlier retry,
-- `not_retryable` or `unknown`.
--   SELECT new_job_id, verdict FROM turno.retry('suc0001', '…')
CREATE OR REPLACE FUNCTION retry(tenant text, job_id uuid, OUT new_job_id uuid, OUT verdict text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    target CONSTANT record := tenant_for_caller(tenant);
BEGIN
    EXECUTE format('SELECT * FROM %s($1, $2)', tenant_function(target.schema, 'application_retry'))
    INTO new_job_id, verdict USING job_id, target.backend;
    IF verdict = 'accepted' THEN
        PERFORM hint_at_commit();
    END IF;
END $$;
