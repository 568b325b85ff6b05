-- Copy new tags to the control schema. In a checkout without the capability, owners have no right on its table.
CREATE OR REPLACE FUNCTION job_tags_mirror() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    IF has_table_privilege('turno.job_tags', 'INSERT') THEN
        INSERT INTO turno.job_tags (job_id, tag, tenant_id)
        SELECT m.job_id, m.tag, turno.tenant_of(current_user) FROM made m
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
