-- Delete the deliveries of deleted jobs. In a checkout without the capability, owners have no right on its table.
CREATE OR REPLACE FUNCTION webhooks_forget() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF has_table_privilege('turno.webhooks', 'DELETE') THEN
        DELETE FROM turno.webhooks WHERE job_id = ANY (ARRAY(SELECT id FROM gone));
    END IF;
    RETURN NULL;
END $$;
