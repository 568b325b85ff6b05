-- Take the ticket that a message names. A message proves nothing: where its schema is not the ticket's tenant's, it
-- is not believed at all.
CREATE OR REPLACE FUNCTION claim_message(p_worker uuid, p_job uuid, p_schema text, p_types text[], p_versions smallint[])
RETURNS SETOF claimed
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM FROM tickets t JOIN tenants n ON n.id = t.tenant_id WHERE t.job_id = p_job AND n.schema = p_schema;
    IF FOUND THEN
        RETURN QUERY SELECT * FROM claim_job(p_worker, p_job, p_types, p_versions);
    END IF;
END $$;
