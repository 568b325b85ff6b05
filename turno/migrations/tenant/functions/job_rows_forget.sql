-- Delete the rows of deleted jobs from the tables that the trigger of a capability names. In a checkout without the
-- capability, owners have no right on its table in the control schema.
CREATE OR REPLACE FUNCTION job_rows_forget() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    FOR i IN 0 .. TG_NARGS - 1 LOOP
        IF has_table_privilege(TG_ARGV[i], 'DELETE') THEN
            EXECUTE format('DELETE FROM %s WHERE job_id = ANY (ARRAY(SELECT id FROM gone))', TG_ARGV[i]::regclass);
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
