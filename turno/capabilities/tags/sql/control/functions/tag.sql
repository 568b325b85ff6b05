-- Tag a job in the caller's transaction: for applications in this database, in any language.
--   SELECT turno.tag(tenant => 'suc0001', job_id => '…', tags => '{month-end}')
CREATE OR REPLACE FUNCTION tag(tenant text, job_id uuid, tags text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET row_security = on AS $$
DECLARE
    target record := tenant_for_caller(tenant);
BEGIN
    EXECUTE format('SELECT %s($1, $2)', tenant_function(target.schema, 'job_tags_put')) USING job_id, tags;
END $$;
