-- Delete the runs of deleted jobs. In a checkout without the capability, owners have no right on the table of templates.
CREATE OR REPLACE FUNCTION schedule_runs_forget() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    DELETE FROM job_schedule_runs r USING gone g WHERE r.job_id = g.id;
    IF has_table_privilege('turno.template_runs', 'DELETE') THEN
        DELETE FROM turno.template_runs WHERE job_id = ANY (ARRAY(SELECT id FROM gone));
    END IF;
    RETURN NULL;
END $$;
