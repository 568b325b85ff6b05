-- Status, progress and result of a job; no row for a job that the tenant does not have.
--   SELECT status, outcome, done, total, result, error FROM turno.job('suc0001', '…')
CREATE OR REPLACE FUNCTION job(tenant text, job_id uuid) RETURNS SETOF application_job
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN QUERY EXECUTE format('SELECT * FROM %s($1)', tenant_function((tenant_for_caller(tenant)).schema, 'application_job'))
    USING job_id;
END $$;
