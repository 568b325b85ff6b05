-- Cancel a job: `cancelled` if it waits, `requested` if it runs, `ended` or `unknown`.
--   SELECT turno.cancel('suc0001', '…')
CREATE OR REPLACE FUNCTION cancel(tenant text, job_id uuid) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    verdict text;
BEGIN
    EXECUTE format('SELECT %s($1)', tenant_function((tenant_for_caller(tenant)).schema, 'application_cancel'))
    INTO verdict USING job_id;
    RETURN verdict;
END $$;
