-- Delete the runs of deleted jobs. In a checkout without the capability, owners have no right on its table.
CREATE OR REPLACE FUNCTION template_runs_forget() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    IF has_table_privilege('turno.template_runs', 'DELETE') THEN
        DELETE FROM turno.template_runs WHERE job_id = ANY (ARRAY(SELECT id FROM gone));
    END IF;
    RETURN NULL;
END $$;
