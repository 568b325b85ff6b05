-- Delete the tags of deleted jobs. In a checkout without the capability, owners have no right on its table in the control
-- schema.
CREATE OR REPLACE FUNCTION job_tags_forget() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    DELETE FROM job_tags t USING gone g WHERE t.job_id = g.id;
    IF has_table_privilege('turno.job_tags', 'DELETE') THEN
        DELETE FROM turno.job_tags WHERE job_id = ANY (ARRAY(SELECT id FROM gone));
    END IF;
    RETURN NULL;
END $$;
