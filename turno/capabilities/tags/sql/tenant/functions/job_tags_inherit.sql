-- Give the tags of a retried job to the job that continues it. In a checkout without the capability, owners have no right on
-- the table.
CREATE OR REPLACE FUNCTION job_tags_inherit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    IF has_table_privilege('turno.job_tags', 'INSERT') THEN
        INSERT INTO turno.job_tags (job_id, tag, tenant_id)
        SELECT NEW.successor_id, t.tag, t.tenant_id FROM turno.job_tags t WHERE t.job_id = NEW.id
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
